// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/eviction.h"

#include <utility>

namespace verbena::kv {

Eviction::Eviction(std::size_t capacity, Items& items) : capacity_(capacity), items_(items) {
	for (Queue* const queue : {&small_, &main_}) {
		queue->ends.newer_ = &queue->ends;
		queue->ends.set_older(&queue->ends);
	}
}

// Makes the entry the newest one of a queue.
void Eviction::enter(Entry& entry, bool main, unsigned uses, std::size_t bytes) {
	Queue& queue = main ? main_ : small_;
	entry.newer_ = &queue.ends;
	entry.set_older(queue.ends.older());
	entry.mark(main, uses);
	entry.older()->newer_ = &entry;
	queue.ends.set_older(&entry);
	++queue.count;
	queue.bytes += bytes;
}

// Until the cache has been full, the small queue takes no more than its part: what came first is
// then not evicted before what comes later.
void Eviction::insert(Entry& entry, const Items::Facts& facts) {
	const bool main = ghosts_.take(facts.hash) || (!was_full_ && small_.bytes >= capacity_ / small_part);
	enter(entry, main, 0, facts.bytes);
}

void Eviction::remove(Entry& entry, std::size_t bytes) {
	if (!entry.queued()) return;
	Queue& queue = queue_of(entry);
	entry.older()->newer_ = entry.newer_;
	entry.newer_->set_older(entry.older());
	entry.newer_ = nullptr;
	--queue.count;
	queue.bytes -= bytes;
}

void Eviction::replace(Entry& entry, Entry& fresh, std::size_t before, std::size_t after) {
	Queue& queue = queue_of(entry);
	fresh.newer_ = std::exchange(entry.newer_, nullptr);
	fresh.older_ = entry.older_;
	relocated(fresh);
	queue.bytes += after - before;
	use(fresh);
}

void Eviction::relocated(Entry& entry) {
	if (!entry.queued()) return;
	entry.older()->newer_ = &entry;
	entry.newer_->set_older(&entry);
}

// Whether the next item to be looked at is that at the end of the small queue.
bool Eviction::takes_small() const {
	return small_.count > 0 && (main_.count == 0 || small_.bytes * small_part >= small_.bytes + main_.bytes);
}

Eviction::Entry* Eviction::evict() {
	was_full_ = true;
	for (unsigned looked = 0; looked < looked_at_max && size() > 0; ++looked) {
		const bool small = takes_small();
		Entry& oldest = *(small ? small_ : main_).ends.newer_;
		const Items::Facts facts = items_.facts_of(oldest);
		const unsigned uses = oldest.uses();
		const bool used = uses >= (small ? uses_for_main : 1) && looked < second_chances_max;
		const bool goes = !used && !items_.stays(oldest);
		remove(oldest, facts.bytes);
		if (goes) {
			if (small) ghosts_.add(facts.hash, main_.count);
			return &oldest;
		}
		// An item from the small queue has to be used again in the main one.
		enter(oldest, true, small || uses == 0 ? 0 : uses - 1, facts.bytes);
	}
	return nullptr;
}

}  // namespace verbena::kv
