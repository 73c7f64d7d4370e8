// SPDX-License-Identifier: Apache-2.0
// The memory windows (type 2) of one transport: for each, which channel has bound it to which
// memory for its peer.
//
// A window whose access was withdrawn is bound again by another operation, so a steady state
// allocates none.
//
// Threads: the loop's thread.
// Owns: the windows, and the buffer of each bound one until its access is withdrawn.
// Lifetime: a Lease refers to its window by index and may outlive the channel, not the table.
// Errors: take() returns `none` when the device has no window left.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "lib/channel/channel.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

class DirectOperations;

// A functor, because ibv_dealloc_mw is an inline function of the header and no template argument.
struct FreeWindow {
	void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};

struct MemoryWindow {
	std::unique_ptr<ibv_mw, FreeWindow> handle;  // null: it was deallocated while bound
	Buffer buffer;  // the memory that it is bound to, kept alive
	// The operations of the channel that bound it; null once it is unbound.
	DirectOperations* owner = nullptr;
	// Links in the owner's list; `next` also links the unbound windows.
	std::uint32_t next = 0, previous = 0;
	bool leased = false;  // a Lease refers to it
};

class WindowTable final : public LeaseOwner {
public:
	static constexpr std::uint32_t none = ~0u;

	explicit WindowTable(ibv_pd* domain) : domain_(domain) {}

	// An unbound window. `none`: the device has no more.
	std::uint32_t take() {
		if (free_ == none) {
			free_ = static_cast<std::uint32_t>(windows_.size());
			windows_.emplace_back();
			windows_.back().next = none;
		}
		MemoryWindow& window = windows_[free_];
		if (!window.handle) window.handle.reset(ibv_alloc_mw(domain_, IBV_MW_TYPE_2));
		if (!window.handle) return none;
		const std::uint32_t index = free_;
		free_ = window.next;
		++in_use_;
		return index;
	}
	// The window is unbound, and no Lease refers to it.
	void give_back(std::uint32_t index) {
		windows_[index].owner = nullptr;
		windows_[index].next = free_;
		free_ = index;
		--in_use_;
	}
	// LeaseOwner: withdraws the access if the owner has not done so yet.
	void end_lease(std::uint32_t index) override;
	MemoryWindow& operator[](std::uint32_t index) { return windows_[index]; }
	std::size_t in_use() const { return in_use_; }

private:
	ibv_pd* domain_;
	std::deque<MemoryWindow> windows_;  // a deque, because references to elements must stay valid
	std::uint32_t free_ = none;
	std::size_t in_use_ = 0;
};

}  // namespace verbena::channel
