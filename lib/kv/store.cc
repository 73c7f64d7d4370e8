// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr std::size_t migrated_at_once = 8;
// For a table that needs room to grow, each SET of a new key evicts this many others, unless the
// table would have more than this part of the memory.
constexpr unsigned evicted_for_table = 4;
constexpr std::size_t table_part = 4;

// The wide product of two words, folded to one: the mixing step of the hash.
std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
	__extension__ using Wide = unsigned __int128;
	const Wide product = Wide{left} * right;
	return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

channel::Buffer Value::buffer(const channel::MemoryPool& pool) const {
	return item_->store->segments_.buffer_of(*this, *item_, pool);
}

void Value::destroy() { item_->store->destroy(item_); }

Store::Store(const StoreOptions& options, channel::MemoryPool* pool)
	: options_(options),
	  segments_(pool),
	  arena_(arena_bytes(options.memory_max), segments_, *this),
	  window_(options.window),
	  table_(buckets_first) {
	secure_random(std::as_writable_bytes(std::span(seed_)));
	if (pool != nullptr && options.index_bytes > 0) index_ = Index::make(*pool, options.index_bytes);
	if (options.evict) eviction_.emplace(options.memory_max, static_cast<Eviction::Items&>(*this));
}

Store::~Store() {
	drop(window_.begin(), [](const Change&) {});
	drop(table_);
	drop(old_);
	check(used_ == 0, "values die before their store");
}

bool Store::share(channel::MemoryPool& pool) {
	if (index_ && !index_->share(pool)) return false;
	if (segments_.share(pool)) return true;
	if (index_) index_->unshare(pool);
	return false;
}

void Store::drop(Table& table) {
	for (Item* first : table)
		for (Item *item = first, *next; item != nullptr; item = next) {
			next = item->next;
			if ((item->parts & Item::mortal) != 0) Expiry::cancel(item->life());
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

Item** Store::bucket_of(std::uint64_t hash) {
	if (!old_.empty() && (hash & (old_.size() - 1)) >= migrated_) return &old_[hash & (old_.size() - 1)];
	return &table_[hash & (table_.size() - 1)];
}

// Returns the link that points to the key's item, or the null link at its bucket's end.
Item** Store::find(std::string_view key, std::uint64_t hash) {
	Item** at = bucket_of(hash);
	while (*at != nullptr && !((*at)->hash == hash && (*at)->key() == key)) at = &(*at)->next;
	return at;
}

// Returns the link to an item that is in the table. Its own bytes are not read.
Item** Store::link_to(const Item* item, std::uint64_t hash) {
	Item** at = bucket_of(hash);
	while (*at != item) at = &(*at)->next;
	return at;
}

Value Store::get(std::string_view key, Nanoseconds now) {
	++counters_.gets;
	Item* const item = *find(key, hash_of(key));
	if (item == nullptr || item->end() <= now) return {};
	++counters_.hits;
	if (eviction_) eviction_->use(item->queued());
	return Value(item);
}

// Returns the credit of a new version, or nullopt if the store is full.
//
// The newest version's memory becomes free once the new one has replaced it and no Value holds it.
// Until then the arena must have room for both. The credit is never more than the new version's own
// cost; otherwise many large versions that are still to arrive could make room for other keys. A
// version that is no larger than the newest one is always allowed: charge() may have filled the
// store.
std::optional<std::size_t> Store::credit_for(std::string_view key, std::uint64_t hash, std::size_t cost) {
	if (fits(cost)) return 0;
	const std::size_t freed = std::min(newest_cost(key, hash), cost);
	if (freed == cost || fits(cost - freed)) return freed;
	refused_for_now_ = fits(cost - freed - std::min(freeing_, cost - freed));
	return {};
}

Value Store::make(std::string_view key, std::size_t size, Life life) {
	const auto parts =
		static_cast<std::uint8_t>((eviction_ ? Item::evictable : 0) | (life == Life::limited ? Item::mortal : 0));
	const std::size_t bytes = Item::value_offset(parts, key.size(), size) + size, cost = Arena::block_size(bytes);
	const std::uint64_t hash = hash_of(key);
	std::optional<std::size_t> credit = credit_for(key, hash, cost);
	// For a version that can never fit, nothing is evicted.
	if (!credit && fits_after_evictions(cost)) {
		while (!credit && evict_one()) credit = credit_for(key, hash, cost);
		refused_for_now_ = true;
	}
	std::byte* const at = credit ? arena_.take(bytes) : nullptr;
	if (at == nullptr) {
		++counters_.refused;
		if (credit) refused_for_now_ = segments_.in_use() > 0 || !window_.empty();
		return {};
	}
	used_ += cost;
	credit_ += *credit;
	Item* const item = new (at) Item{.store = this,
		.hash = hash,
		.value_length = static_cast<std::uint32_t>(size),
		.credit = static_cast<std::uint32_t>(*credit),
		.key_length = static_cast<std::uint16_t>(key.size()),
		.parts = parts};
	if (eviction_) new (&item->queued()) Eviction::Entry;
	if (life == Life::limited) new (&item->life()) Expiry::Entry{.at = never};
	std::memcpy(item->key_begin(), key.data(), key.size());
	return Value(item);
}

void Store::destroy(Item* item) {
	const std::size_t bytes = item->block_bytes();
	used_ -= Arena::block_size(bytes);
	credit_ -= item->credit;
	arena_.give_back(reinterpret_cast<std::byte*>(item), bytes);
}

bool Store::movable(const std::byte* block) {
	const Item& item = *reinterpret_cast<const Item*>(block);
	return item.in_table && item.references == 1;
}

// Lets every pointer to the item point to its new place. The bytes at `from` may be another item's
// already.
void Store::moved(std::byte* from, std::byte* to) {
	auto* const item = reinterpret_cast<Item*>(to);
	*link_to(reinterpret_cast<const Item*>(from), item->hash) = item;
	if (eviction_) Eviction::relocated(item->queued());
	if ((item->parts & Item::mortal) != 0) Expiry::relocated(item->life());
}

bool Store::set(std::string_view key, Bytes value) {
	Value made = take(key, value);
	return made && enter(made);
}

Value Store::take(std::string_view key, std::size_t size, Life life) { return make(key, size, life); }

Value Store::take(std::string_view key, Bytes value, Life life) {
	Value made = make(key, value.size(), life);
	if (made && !value.empty()) std::memcpy(made.item_->value(), value.data(), value.size());
	return made;
}

bool Store::set(Value value) { return enter(value); }

// The credit was granted when the bytes were requested. Grants it again only if the version to be
// replaced is still there; another client may have removed or replaced it meanwhile.
bool Store::confirm_credit(Item& item) {
	if (item.credit == 0) return true;
	std::size_t freed = newest_cost(item.key(), item.hash);
	if (freed >= item.credit) return true;
	while (used_ - (credit_ - item.credit) - freed + overhead() > options_.memory_max) {
		if (!eviction_ || !evict_one()) {
			++counters_.refused;
			refused_for_now_ = eviction_.has_value();
			return false;
		}
		freed = std::min<std::size_t>(newest_cost(item.key(), item.hash), item.credit);
	}
	credit_ -= item.credit - freed;
	item.credit = static_cast<std::uint32_t>(freed);
	return true;
}

bool Store::restore(std::string_view key, Bytes value, std::uint64_t version, Nanoseconds end) {
	Value made = take(key, value, end == never ? Life::endless : Life::limited);
	if (!made || !confirm_credit(*made.item_)) return false;
	if (end != never) made.end_at(end);
	begin_versions(made.item_->version = version);
	put(made.release());
	return true;
}

bool Store::enter(Value& value) {
	if (!confirm_credit(*value.item_)) return false;
	value.item_->version = ++last_version_;
	put(value.release());
	return true;
}

void Store::put(Item* item) {
	++counters_.sets;
	credit_ -= std::exchange(item->credit, 0);
	item->in_table = true;
	Item** const at = find(item->key(), item->hash);
	Item* const present = *at;
	if ((item->parts | (present == nullptr ? 0 : present->parts)) != 0) queue_new(*item, present);
	*at = item;
	if (present != nullptr) {
		item->next = present->next;
		present->in_table = false;
		const Value last(present);
		--present->references;
	}
	if (index_) show(*item);
	show_change(EventKind::set, item->key(), item->version);
	// The item may be evicted for the table.
	if (present == nullptr && ++count_ > table_.size()) grow();
	if (!old_.empty()) migrate(migrated_at_once);
}

bool Store::remove(std::string_view key, Nanoseconds now) {
	Item** const at = find(key, hash_of(key));
	if (*at == nullptr || (*at)->end() <= now) return false;
	++last_version_;
	++counters_.removes;
	take_out(at);
	show_change(EventKind::removed, key, last_version_);
	return true;
}

bool Store::lose(std::string_view key) {
	Item** const at = find(key, hash_of(key));
	if (*at == nullptr) return false;
	const std::uint64_t version = (*at)->version;
	take_out(at);
	show_change(EventKind::evicted, key, version);
	return true;
}

// Removes the item at this link from the table.
void Store::take_out(Item** at) {
	Item* const item = *at;
	*at = item->next;
	--count_;
	if (index_) index_->withdraw(item->key());
	if (eviction_) eviction_->remove(item->queued(), item->cost());
	if ((item->parts & Item::mortal) != 0) Expiry::cancel(item->life());
	item->in_table = false;
	const Value last(item);
	--item->references;
}

// Doubles the table, unless that would exceed the limit: then its buckets get longer. Later SETs
// move the items, a few buckets at a time.
void Store::grow() {
	const std::size_t bytes = table_.size() * 2 * sizeof(Item*);
	if (eviction_ && bytes <= options_.memory_max / table_part)
		for (unsigned i = 0; i < evicted_for_table && !fits(bytes); ++i)
			if (!evict_one()) break;
	if (!fits(bytes)) return;
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
