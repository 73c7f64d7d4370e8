#include "lib/kv/store.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr std::size_t migrated_at_once = 8;

// The wide product of two words, folded to one: the mixing step of the hash.
std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
	__extension__ using Wide = unsigned __int128;
	const Wide product = Wide{left} * right;
	return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// The bytes of one version, and of its block.
std::size_t item_bytes(std::size_t key, std::size_t value) { return Item::value_offset(key, value) + value; }
std::size_t cost_of(const Item& item) { return Arena::block_size(item_bytes(item.key_length, item.value_length)); }

}  // namespace

channel::Buffer Value::buffer() const { return item_->store->segments_.buffer_of(*this, *item_); }

void Value::destroy() { item_->store->destroy(item_); }

Store::Store(const StoreOptions& options, channel::MemoryPool* pool)
	: options_(options),
	  segments_(pool),
	  arena_(arena_bytes(options.memory_max), segments_, *this),
	  window_(options.window),
	  table_(buckets_first) {
	secure_random(std::as_writable_bytes(std::span(seed_)));
	if (pool != nullptr && options.index_bytes > 0) index_ = Index::make(*pool, options.index_bytes);
}

Store::~Store() {
	drop(window_.begin(), [](const Change&) {});
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

Value Store::get(std::string_view key) {
	++counters_.gets;
	Item* const item = *find(key, hash_of(key));
	counters_.hits += item != nullptr;
	return Value(item);
}

// Returns the newest change of the key in the window, or null.
const Change* Store::newest_change(std::string_view key, std::uint64_t hash) const {
	if (window_.empty()) return nullptr;
	return window_.newest(hash, [&](const Change& change) { return change.key() == key; });
}

Store::Newest Store::newest(std::string_view key) {
	const std::uint64_t hash = hash_of(key);
	if (const Change* const change = newest_change(key, hash); change != nullptr)
		return {.value = change->kind == Change::Kind::set ? change->value : Value(), .waits = true};
	return {.value = Value(*find(key, hash))};
}

// The bytes of the newest version; 0: the key is missing.
std::size_t Store::newest_cost(std::string_view key, std::uint64_t hash) {
	if (const Change* const change = newest_change(key, hash); change != nullptr)
		return change->kind == Change::Kind::set ? cost_of(*change->value.item_) : 0;
	const Item* const present = *find(key, hash);
	return present == nullptr ? 0 : cost_of(*present);
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

Value Store::make(std::string_view key, std::size_t size) {
	const std::size_t bytes = item_bytes(key.size(), size), cost = Arena::block_size(bytes);
	const std::uint64_t hash = hash_of(key);
	const std::optional<std::size_t> credit = credit_for(key, hash, cost);
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
		.key_length = static_cast<std::uint16_t>(key.size())};
	std::memcpy(item->tail(), key.data(), key.size());
	return Value(item);
}

void Store::destroy(Item* item) {
	const std::size_t bytes = item_bytes(item->key_length, item->value_length);
	used_ -= Arena::block_size(bytes);
	credit_ -= item->credit;
	arena_.give_back(reinterpret_cast<std::byte*>(item), bytes);
}

bool Store::movable(const std::byte* block) {
	const Item& item = *reinterpret_cast<const Item*>(block);
	return item.in_table && item.references == 1;
}

// Lets the link that pointed to the item point to its new place. The bytes at `from` may be another
// item's already.
void Store::moved(std::byte* from, std::byte* to) {
	auto* const item = reinterpret_cast<Item*>(to);
	Item** at = bucket_of(item->hash);
	while (reinterpret_cast<std::byte*>(*at) != from) at = &(*at)->next;
	*at = item;
}

bool Store::set(std::string_view key, Bytes value) {
	Value made = take(key, value);
	return made && enter(made);
}

Value Store::take(std::string_view key, std::size_t size) { return make(key, size); }

Value Store::take(std::string_view key, Bytes value) {
	Value made = make(key, value.size());
	if (made && !value.empty()) std::memcpy(made.item_->value(), value.data(), value.size());
	return made;
}

bool Store::set(Value value) { return enter(value); }

// The credit was granted when the bytes were requested. Grants it again only if the version to be
// replaced is still there; another client may have removed or replaced it meanwhile.
bool Store::confirm_credit(Item& item) {
	if (item.credit == 0) return true;
	const std::size_t freed = newest_cost(item.key(), item.hash);
	if (freed >= item.credit) return true;
	if (used_ - (credit_ - item.credit) - freed + overhead() > options_.memory_max) {
		++counters_.refused;
		refused_for_now_ = false;
		return false;
	}
	credit_ -= item.credit - freed;
	item.credit = static_cast<std::uint32_t>(freed);
	return true;
}

bool Store::restore(std::string_view key, Bytes value, std::uint64_t version) {
	Value made = take(key, value);
	if (!made || !confirm_credit(*made.item_)) return false;
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

bool Store::accept(Value value, const Ticket& ticket) {
	Item& item = *value.item_;
	if (!confirm_credit(item)) return false;
	const std::size_t freed = newest_cost(item.key(), item.hash) - item.credit;
	item.version = ++last_version_;
	freeing_ += freed;
	waiting_bytes_ += item.key_length + item.value_length;
	window_.accept(item.hash,
		{.kind = Change::Kind::set,
			.version = item.version,
			.freed = static_cast<std::uint32_t>(freed),
			.value = std::move(value),
			.ticket = ticket});
	return true;
}

void Store::accept_removal(Value value, const Ticket& ticket) {
	const Item& item = *value.item_;
	const std::size_t freed = cost_of(item);
	freeing_ += freed;
	window_.accept(item.hash,
		{.kind = Change::Kind::remove,
			.version = ++last_version_,
			.freed = static_cast<std::uint32_t>(freed),
			.value = std::move(value),
			.ticket = ticket});
}

void Store::accept_answer(Status status, std::uint64_t version, const Ticket& ticket) {
	window_.follow({.status = status, .version = version, .ticket = ticket});
}

void Store::leave_window(const Change& change) {
	freeing_ -= change.freed;
	if (change.kind == Change::Kind::set) waiting_bytes_ -= change.key().size() + change.value.size();
}

void Store::hold(ChangeWindow::Position end, const std::function<void(const Change&)>& done) {
	window_.hold(end, [&](Change& change) {
		leave_window(change);
		if (change.kind == Change::Kind::set) {
			Value value = change.value;
			put(value.release());
		} else if (change.kind == Change::Kind::remove) {
			take_out(find(change.key(), change.value.item_->hash));
		}
		done(change);
	});
}

void Store::drop(ChangeWindow::Position from, const std::function<void(const Change&)>& undo) {
	window_.drop(from, [&](Change& change) {
		leave_window(change);
		undo(change);
	});
}

void Store::put(Item* item) {
	++counters_.sets;
	credit_ -= std::exchange(item->credit, 0);
	item->in_table = true;
	Item** const at = find(item->key(), item->hash);
	if (Item* const present = *at; present != nullptr) {
		item->next = present->next;
		*at = item;
		present->in_table = false;
		const Value last(present);
		--present->references;
	} else {
		*at = item;
		if (++count_ > table_.size()) grow();
	}
	if (index_) index_->set(item->key(), item->bytes());
	if (!old_.empty()) migrate(migrated_at_once);
}

void Store::publish(std::string_view key, const Value& value) {
	if (index_) index_->publish(key, value.bytes());
}

bool Store::remove(std::string_view key) {
	Item** const at = find(key, hash_of(key));
	if (*at == nullptr) return false;
	++last_version_;
	take_out(at);
	return true;
}

// Removes the item at this link from the table.
void Store::take_out(Item** at) {
	Item* const item = *at;
	*at = item->next;
	--count_;
	++counters_.removes;
	if (index_) index_->withdraw(item->key());
	item->in_table = false;
	const Value last(item);
	--item->references;
}

// Doubles the table, unless that would exceed the limit: then its buckets get longer. Later SETs
// move the items, a few buckets at a time.
void Store::grow() {
	if (!fits(table_.size() * 2 * sizeof(Item*))) return;
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
