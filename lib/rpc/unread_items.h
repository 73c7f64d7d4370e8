// SPDX-License-Identifier: Apache-2.0
// UnreadItems: the items of a stream that have arrived and are unread, in order.
//
// Small items lie one behind the other in blocks, so that an item of one byte takes no more memory
// than its share of the window. A large item keeps the message that it arrived in, if it is at
// least half of that.
//
// Threads: belongs to the stream's I/O thread.
// Owns: the items' bytes.
// Errors: push() returns false if the items of the connection take all memory that they may.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "lib/rpc/budget.h"
#include "lib/rpc/serialize.h"
#include "lib/rpc/shared_message.h"

namespace verbena::rpc {

class UnreadItems {
public:
	// `counted`: counts the memory that the items take; null: without a limit.
	explicit UnreadItems(std::shared_ptr<ItemBytes> counted) : counted_(std::move(counted)) {}
	~UnreadItems() { clear(); }
	UnreadItems(const UnreadItems&) = delete;
	UnreadItems& operator=(const UnreadItems&) = delete;

	bool empty() const { return blocks_.empty(); }
	// False: there is no room for the item, which is dropped.
	bool push(std::span<const std::byte> body, Arrived& arrived);
	// The first item, valid until pop(). Not to be called while empty().
	std::span<const std::byte> front() const;
	void pop();
	void clear();

private:
	using Length = std::uint32_t;
	// Small items, each behind its length; or one item in a message that `share` keeps.
	struct Block {
		Buffer items;
		std::size_t read = 0;  // bytes of `items` that were popped
		MessageShare share;
		std::span<const std::byte> shared;
		std::size_t cost = 0;  // bytes of memory, as counted
	};
	bool add_block(std::size_t bytes);  // false: there is no room
	void drop_block();

	std::shared_ptr<ItemBytes> counted_;
	std::deque<Block> blocks_;  // none is empty
};

}  // namespace verbena::rpc
