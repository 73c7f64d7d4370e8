// SPDX-License-Identifier: Apache-2.0
// A queue that can take a known number of items without memory: its nodes are allocated before the
// step that must not fail half-way.
//
// Threads: one at a time.
// Errors: reserve() throws std::bad_alloc and changes nothing then. push() throws it only if no
//   node is reserved.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace verbena {

template <class Item> class ReservedList {
public:
	// From here on push() cannot fail `count` times.
	void reserve(std::size_t count) {
		while (spare_.size() < count) spare_.emplace_back();
	}
	// Uses a reserved node if there is one.
	void push(Item item) {
		if (spare_.empty()) spare_.emplace_back();
		spare_.front() = std::move(item);
		items_.splice(items_.end(), spare_, spare_.begin());
	}
	bool empty() const { return items_.empty(); }
	std::size_t size() const { return items_.size(); }
	// The queue must not be empty.
	const Item& front() const { return items_.front(); }
	// Removes the oldest item and returns it. Keeps its node for the next push().
	Item pop() {
		Item item = std::move(items_.front());
		items_.front() = Item();
		spare_.splice(spare_.begin(), items_, items_.begin());
		if (spare_.size() > spare_max) spare_.pop_front();
		return item;
	}
	template <class Predicate> void erase_if(Predicate&& predicate) { std::erase_if(items_, predicate); }

private:
	static constexpr std::size_t spare_max = 16;

	std::list<Item> items_, spare_;
};

}  // namespace verbena
