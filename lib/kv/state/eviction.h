// SPDX-License-Identifier: Apache-2.0
// Eviction: which item of a full cache goes next, by S3-FIFO (Yang, Zhang, Qiu, Yue and Vinayak,
// "FIFO queues are all you need for cache eviction", SOSP 2023).
//
// A new item enters the small queue, which has a tenth of the bytes. At its end, an item that was
// used twice or more goes on to the main queue; any other is evicted and leaves a ghost (ghosts.h).
// An item that comes back while its ghost is remembered enters the main queue. At the end of that,
// an item that was used begins again, with one use less; any other is evicted. Uses are counted up
// to 3. So items that are used once, as in a scan, leave soon and displace few others.
//
// Threads: any one at a time. No I/O.
// Owns: nothing; an Entry is a part of its item.
// Lifetime: dies before the entries. An entry is taken out by remove() or evict() before its item
//   dies.
// Invariants: evict() looks at a bounded number of items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/kv/state/ghosts.h"

namespace verbena::kv {

class Eviction {
public:
	// An item's place in its queue, and its uses.
	class alignas(8) Entry {
	public:
		bool queued() const { return newer_ != nullptr; }

	private:
		friend class Eviction;
		// The low bits of the link to the older entry, which is a multiple of 8: the uses, and
		// whether the entry is in the main queue.
		static constexpr std::uintptr_t uses_mask = 3, main_bit = 4, marks = uses_mask | main_bit;

		Entry* older() const { return reinterpret_cast<Entry*>(older_ & ~marks); }
		void set_older(Entry* entry) { older_ = reinterpret_cast<std::uintptr_t>(entry) | (older_ & marks); }
		unsigned uses() const { return static_cast<unsigned>(older_ & uses_mask); }
		bool in_main() const { return (older_ & main_bit) != 0; }
		void mark(bool main, unsigned uses) {
			older_ = reinterpret_cast<std::uintptr_t>(older()) | (main ? main_bit : 0) | uses;
		}

		Entry* newer_ = nullptr;
		std::uintptr_t older_ = 0;
	};

	// The owner of the items. It calls nothing of the eviction in these functions.
	class Items {
	public:
		struct Facts {
			std::uint64_t hash = 0;
			std::size_t bytes = 0;
		};
		virtual Facts facts_of(Entry& entry) = 0;
		// True if the item must stay for now. It then begins again in the main queue.
		virtual bool stays(Entry& entry) = 0;

	protected:
		~Items() = default;
	};

	// `capacity`: about the bytes of all items when the cache is full.
	Eviction(std::size_t capacity, Items& items);
	Eviction(const Eviction&) = delete;
	Eviction& operator=(const Eviction&) = delete;

	// Puts a new item into a queue.
	void insert(Entry& entry, const Items::Facts& facts);
	// The item was used.
	void use(Entry& entry) {
		if (entry.uses() < uses_max) entry.mark(entry.in_main(), entry.uses() + 1);
	}
	// The item of `fresh` takes the place of that of `entry`, which was so used. `before` and
	// `after` are their bytes.
	void replace(Entry& entry, Entry& fresh, std::size_t before, std::size_t after);
	// Takes an item out. Nothing happens if it is in no queue.
	void remove(Entry& entry, std::size_t bytes);
	// The bytes of the entry have been moved to here.
	static void relocated(Entry& entry);

	// Takes the item that goes next out of its queue and returns its entry; null: there is none, or
	// those that it looked at stay.
	Entry* evict();

	std::size_t size() const { return small_.count + main_.count; }  // items
	// Bytes for the ghosts of all items. They count from the first item on, so that a cache that
	// becomes full does not have to make room for its ghosts all at once.
	std::size_t bytes() const { return std::max(ghosts_.bytes(), Ghosts::bytes_for(size())); }
	// The most by which one more item increases bytes().
	static constexpr std::size_t bytes_more = Ghosts::bytes_step;

private:
	static constexpr unsigned uses_max = 3, uses_for_main = 2;
	static constexpr std::size_t small_part = 10;  // the small queue has 1/10 of the bytes
	// The most items that one evict() lets begin again because they were used, and the most that it
	// looks at.
	static constexpr unsigned second_chances_max = 128, looked_at_max = 512;

	struct Queue {
		Entry ends;  // the oldest entry is the newer one of this, the newest is the older one
		std::size_t count = 0, bytes = 0;
	};
	Queue& queue_of(const Entry& entry) { return entry.in_main() ? main_ : small_; }
	void enter(Entry& entry, bool main, unsigned uses, std::size_t bytes);
	bool takes_small() const;

	std::size_t capacity_;
	Items& items_;
	Queue small_, main_;
	Ghosts ghosts_;
	bool was_full_ = false;  // evict() was called
};

}  // namespace verbena::kv
