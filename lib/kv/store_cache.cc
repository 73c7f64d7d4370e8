// SPDX-License-Identifier: Apache-2.0
// The part of Store that takes versions out: eviction, and ends of life.
#include <algorithm>

#include "lib/kv/store.h"

namespace verbena::kv {
namespace {

// A published version leaves the index this long before its end. A version that ends before
// `shown_min` is not published.
constexpr Nanoseconds withdrawn_before = 16'000'000, shown_min = 64'000'000;

}  // namespace

// Eviction.

// Puts an item into the queues. `present` is the version that it replaces, or null.
void Store::queue_new(Item& item, Item* present) {
	if (eviction_ && present != nullptr)
		eviction_->replace(present->queued(), item.queued(), present->cost(), item.cost());
	else if (eviction_) eviction_->insert(item.queued(), {.hash = item.hash, .bytes = item.cost()});
	if (present != nullptr && (present->parts & Item::mortal) != 0) Expiry::cancel(present->life());
	if ((item.parts & Item::mortal) != 0) ends_.schedule(item.life(), item.life().at);
}

// Returns false if no key can be evicted now.
bool Store::evict_one() {
	Eviction::Entry* const entry = eviction_->evict();
	if (entry == nullptr) return false;
	Item& item = Item::of(*entry);
	++counters_.evicted;
	const Value last(&item);
	take_out(link_to(&item, item.hash));
	show_change(EventKind::evicted, last.key(), last.version());
	return true;
}

Store::Facts Store::facts_of(Eviction::Entry& entry) {
	const Item& item = Item::of(entry);
	return {.hash = item.hash, .bytes = item.cost()};
}

bool Store::charge_more(std::size_t bytes) {
	// For what can never fit, nothing is evicted.
	const bool evicts = fits_after_evictions(bytes);
	while (!fits(bytes))
		if (!evicts || !evict_one()) {
			++counters_.refused;
			return false;
		}
	charged_ += bytes;
	return true;
}

// A version that a Value holds would give no room. The uses of a published version are not seen,
// because clients read it without a message; so it is only withdrawn, and its next uses are seen.
bool Store::stays(Eviction::Entry& entry) {
	const Item& item = Item::of(entry);
	return item.references > 1 || (index_ && index_->withdraw(item.key()));
}

// Ends of life.

// Shows the new version of a key in the index, if the key is published.
void Store::show(Item& item) {
	if (index_->set(item.key(), item.bytes()) && !withdraw_in_time(item)) index_->withdraw(item.key());
}

void Store::publish(std::string_view key, const Value& value) {
	if (index_ && value.item_->in_table && withdraw_in_time(*value.item_)) index_->publish(key, value.bytes());
}

// Lets the index lose the item before its end. Returns false if its end is too near.
bool Store::withdraw_in_time(Item& item) {
	if ((item.parts & Item::mortal) == 0) return true;
	const Nanoseconds end = item.life().at, now = withdrawals_.now();
	if (end < now + shown_min) return false;
	withdrawals_.schedule(item.life(), end - withdrawn_before - Expiry::late_max(end - now));
	return true;
}

void Store::announce(Nanoseconds now) {
	withdrawals_.advance(now);
	ends_.advance(now);
}

// The index comes first: a client that reads there does not look at the time.
bool Store::expire(Nanoseconds now, std::size_t most, const std::function<void(Value)>& ended) {
	announce(now);
	const std::uint8_t others = eviction_ ? Item::evictable : 0;
	for (; most > 0; --most) {
		Expiry::Entry* entry = withdrawals_.next_due();
		const bool is_published = entry != nullptr;
		if (entry == nullptr) entry = ends_.next_due();
		if (entry == nullptr) return false;
		Item& item = Item::of(*entry, others);
		if (is_published) index_->withdraw(item.key());
		if (is_published || entry->at > now) ends_.schedule(*entry, entry->at);
		else ended(Value(&item));
	}
	return true;
}

void Store::end(const Value& value) {
	++last_version_;
	++counters_.expired;
	take_out(link_to(value.item_, value.item_->hash));
	show_change(EventKind::expired, value.key(), last_version_);
}

}  // namespace verbena::kv
