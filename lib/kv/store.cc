#include "lib/kv/store.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr std::size_t buckets_first = 1024;
constexpr std::size_t migrated_at_once = 8;
// What malloc adds to a block, on average.
constexpr std::size_t heap_overhead = 16;

std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
	__extension__ using Wide = unsigned __int128;
	const Wide product = Wide{left} * right;
	return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

Item* make_item(std::string_view key, std::size_t value_length) {
	void* const at = std::malloc(sizeof(Item) + key.size() + value_length);
	if (at == nullptr) return nullptr;
	Item* const item = new (at) Item;
	item->key_length = static_cast<std::uint32_t>(key.size());
	std::memcpy(item->tail(), key.data(), key.size());
	return item;
}

}  // namespace

void Value::destroy() {
	item_->store->heap_used_ -= item_->heap_bytes() + heap_overhead;
	item_->~Item();
	std::free(item_);
}

Store::Store(const StoreOptions& options, channel::MemoryPool* pool) : options_(options), pool_(pool), table_(buckets_first) {
	secure_random(std::as_writable_bytes(std::span(seed_)));
	if (pool != nullptr && options.index_bytes > 0) index_ = Index::make(*pool, options.index_bytes);
}

Store::~Store() {
	drop(table_);
	drop(old_);
	check(heap_used_ == 0, "values die before their store");
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

// Keyed, so that nobody outside can choose keys that fall into one bucket.
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

// Where the pointer to the key's item stands, or would.
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

// What the present value takes becomes free by this, unless somebody holds it.
bool Store::has_room(std::string_view key, std::size_t bytes) {
	if (used() + bytes <= options_.memory_max) return true;
	const Item* const present = *find(key, hash_of(key));
	const std::size_t freed = present == nullptr || present->references > 1
		? 0
		: present->heap_bytes() + heap_overhead + (present->buffer ? present->value_length : 0);
	if (used() + bytes <= options_.memory_max + freed) return true;
	++counters_.refused;
	return false;
}

bool Store::set(std::string_view key, Bytes value) {
	if (pool_ != nullptr && value.size() >= options_.registered_min) {
		channel::Buffer buffer = take(key, value.size());
		if (!buffer) return false;
		std::memcpy(buffer.data(), value.data(), value.size());
		set(key, std::move(buffer));
		return true;
	}
	if (!has_room(key, sizeof(Item) + heap_overhead + key.size() + value.size())) return false;
	Item* const item = make_item(key, value.size());
	if (item == nullptr) {
		++counters_.refused;
		return false;
	}
	item->value_length = static_cast<std::uint32_t>(value.size());
	if (!value.empty()) std::memcpy(item->tail() + key.size(), value.data(), value.size());
	put(item);
	return true;
}

void Store::set(std::string_view key, channel::Buffer value) {
	Item* const item = make_item(key, 0);
	check(item != nullptr, "there is memory for a key");
	item->value_length = static_cast<std::uint32_t>(value.size());
	item->buffer = std::move(value);
	put(item);
}

channel::Buffer Store::take(std::string_view key, std::size_t size) {
	if (pool_ == nullptr || !has_room(key, size + sizeof(Item) + heap_overhead + key.size())) return {};
	channel::Buffer buffer = pool_->take(size);
	counters_.refused += !buffer;
	return buffer;
}

void Store::put(Item* item) {
	++counters_.sets;
	item->store = this;
	item->references = 1;
	item->hash = hash_of(item->key());
	heap_used_ += item->heap_bytes() + heap_overhead;
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
