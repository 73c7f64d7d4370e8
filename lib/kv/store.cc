#include "lib/kv/store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr std::size_t buckets_first = 1024;
constexpr std::size_t migrated_at_once = 8;
// The bytes that malloc adds to a block, on average.
constexpr std::size_t heap_overhead = 16;

// The wide product of two words, folded to one: the mixing step of the hash.
std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
	__extension__ using Wide = unsigned __int128;
	const Wide product = Wide{left} * right;
	return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The memory of one version in bytes. It depends on nothing that changes between the reservation of
// a version and its destruction, so used() returns to 0.
std::size_t cost_of(std::size_t key, std::size_t value, bool registered) {
	return sizeof(Item) + heap_overhead + key + (registered ? channel::MemoryPool::block_size(value) : value);
}
std::size_t cost_of(const Item& item) { return cost_of(item.key_length, item.value_length, bool{item.buffer}); }

}  // namespace

void Value::destroy() {
	item_->store->used_ -= cost_of(*item_);
	item_->store->credit_ -= item_->credit;
	item_->~Item();
	std::free(item_);
}

Store::Store(const StoreOptions& options, channel::MemoryPool* pool)
	: options_(options), pool_(pool), table_(buckets_first) {
	secure_random(std::as_writable_bytes(std::span(seed_)));
	if (pool != nullptr && options.index_bytes > 0) index_ = Index::make(*pool, options.index_bytes);
}

Store::~Store() {
	drop(table_);
	drop(old_);
	check(used_ == 0, "values die before their store");
}

void Store::drop(Table& table) {
	for (Item* first : table)
		for (Item *item = first, *next; item != nullptr; item = next) {
			next = item->next;
			const Value last(item);
			--item->references;  // the table's own
		}
	table.clear();
}

// A keyed hash: without the secret seed, a client cannot choose keys that fall into one bucket.
std::uint64_t Store::hash_of(std::string_view key) const {
	std::uint64_t hash = seed_[0] ^ key.size();
	const char* at = key.data();
	std::size_t left = key.size();
	std::uint64_t word;
	for (; left > 8; left -= 8, at += 8) {
		std::memcpy(&word, at, 8);
		hash = fold(hash ^ word, seed_[1] | 1);
	}
	word = 0;
	if (left > 0) std::memcpy(&word, at, left);
	return fold(fold(hash ^ word, seed_[1] | 1) ^ seed_[0], 0x9e3779b97f4a7c15);
}

// Returns the link that points to the key's item, or the null link at its bucket's end.
Item** Store::find(std::string_view key, std::uint64_t hash) {
	Item** at = &table_[hash & (table_.size() - 1)];
	if (!old_.empty() && (hash & (old_.size() - 1)) >= migrated_) at = &old_[hash & (old_.size() - 1)];
	while (*at != nullptr && !((*at)->hash == hash && (*at)->key() == key)) at = &(*at)->next;
	return at;
}

Value Store::get(std::string_view key) {
	++counters_.gets;
	Item* const item = *find(key, hash_of(key));
	counters_.hits += item != nullptr;
	return Value(item);
}

// Returns the credit of a new version, or nullopt if the store is full.
//
// The present version's memory becomes free once the new one replaces it, unless a Value holds it.
// The credit is never more than the new version's own cost; otherwise many large versions that are
// still to arrive could make room for other keys.
std::optional<std::size_t> Store::credit_for(std::string_view key, std::size_t cost) {
	const std::size_t wanted = used_ - credit_ + cost;
	if (wanted <= options_.memory_max) return 0;
	const Item* const present = *find(key, hash_of(key));
	const std::size_t freed = present == nullptr || present->references > 1 ? 0 : std::min(cost_of(*present), cost);
	if (wanted - freed > options_.memory_max) return {};
	return freed;
}

Value Store::make(std::string_view key, std::size_t size, bool registered) {
	const std::size_t cost = cost_of(key.size(), size, registered);
	const std::optional<std::size_t> credit = credit_for(key, cost);
	channel::Buffer buffer;
	if (credit && registered) buffer = pool_->take(size);
	void* const at = credit && bool{buffer} == registered
		? std::malloc(sizeof(Item) + key.size() + (registered ? 0 : size))
		: nullptr;
	if (at == nullptr) {
		++counters_.refused;
		return {};
	}
	used_ += cost;
	credit_ += *credit;
	Item* const item = new (at) Item{.store = this,
		.key_length = static_cast<std::uint32_t>(key.size()),
		.value_length = static_cast<std::uint32_t>(size),
		.credit = static_cast<std::uint32_t>(*credit),
		.buffer = std::move(buffer)};
	std::memcpy(item->tail(), key.data(), key.size());
	return Value(item);
}

bool Store::set(std::string_view key, Bytes value) {
	const bool registered = pool_ != nullptr && value.size() >= options_.registered_min;
	Value made = make(key, value.size(), registered);
	if (!made) return false;
	std::byte* const to = registered ? made.buffer().data() : made.item_->tail() + key.size();
	if (!value.empty()) std::memcpy(to, value.data(), value.size());
	return enter(made);
}

Value Store::take(std::string_view key, std::size_t size) {
	if (pool_ != nullptr) return make(key, size, true);
	++counters_.refused;
	return {};
}

bool Store::set(Value value) { return enter(value); }

bool Store::enter(Value& value) {
	Item* const item = value.item_;
	// The credit was granted when the bytes were requested. Grant it again only if the version to
	// be replaced is still there; another client may have removed or replaced it meanwhile.
	if (const std::size_t credit = std::exchange(item->credit, 0); credit > 0) {
		credit_ -= credit;
		const Item* const present = *find(item->key(), hash_of(item->key()));
		const std::size_t freed = present == nullptr ? 0 : cost_of(*present);
		if (freed < credit && used_ - credit_ - freed > options_.memory_max) {
			++counters_.refused;
			return false;
		}
	}
	put(value.release());
	return true;
}

void Store::put(Item* item) {
	++counters_.sets;
	item->hash = hash_of(item->key());
	Item** const at = find(item->key(), item->hash);
	if (Item* const present = *at; present != nullptr) {
		item->next = present->next;
		*at = item;
		const Value last(present);
		--present->references;
	} else {
		*at = item;
		if (++count_ > table_.size()) grow();
	}
	if (journal_ != nullptr) journal_->set(item->key(), item->bytes());
	// With a journal, withdraw the key: a one-sided GET must not see the new value before its
	// commit.
	if (index_ && journal_ != nullptr) index_->withdraw(item->key());
	else if (index_) index_->set(item->key(), item->bytes());
	if (!old_.empty()) migrate(migrated_at_once);
}

void Store::publish(std::string_view key, const Value& value) {
	if (index_ && (journal_ == nullptr || !journal_->pending())) index_->publish(key, value.bytes());
}

bool Store::remove(std::string_view key) {
	Item** const at = find(key, hash_of(key));
	Item* const item = *at;
	if (item == nullptr) return false;
	*at = item->next;
	--count_;
	++counters_.removes;
	if (journal_ != nullptr) journal_->remove(key);
	if (index_) index_->withdraw(key);
	const Value last(item);
	--item->references;
	return true;
}

// Doubles the table. Later SETs move the items, a few buckets at a time.
void Store::grow() {
	if (!old_.empty()) migrate(old_.size());
	old_.assign(table_.size() * 2, nullptr);
	old_.swap(table_);
	migrated_ = 0;
}

void Store::migrate(std::size_t buckets) {
	for (; buckets > 0 && migrated_ < old_.size(); --buckets) {
		Item* first = std::exchange(old_[migrated_++], nullptr);
		for (Item *item = first, *next; item != nullptr; item = next) {
			next = item->next;
			Item*& bucket = table_[item->hash & (table_.size() - 1)];
			item->next = bucket;
			bucket = item;
		}
	}
	if (migrated_ == old_.size()) Table().swap(old_);
}

}  // namespace verbena::kv
