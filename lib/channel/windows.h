// The memory windows of one transport (type 2): what of its registered memory is lent to a peer, by which channel, and
// the buffer that is kept so long. A window whose right was withdrawn is bound again for another operation; none is
// made in a steady state.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "lib/channel/channel.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

class DirectOperations;

// ibv_dealloc_mw is an inline function of the header: it has no address to name a type by.
struct FreeWindow {
	void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};

struct MemoryWindow {
	std::unique_ptr<ibv_mw, FreeWindow> handle;
	Buffer buffer;
	DirectOperations* owner = nullptr;  // of the channel that lent it; none when that is gone
	std::uint32_t next = 0, previous = 0;  // of those that the owner has lent, or of the free ones
	bool leased = false;  // a Lease speaks of it
};

class WindowTable final : public LeaseOwner {
public:
	static constexpr std::uint32_t none = ~0u;

	explicit WindowTable(ibv_pd* domain) : domain_(domain) {}

	// none: the device has no more.
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
	void give_back(std::uint32_t index) {
		windows_[index].owner = nullptr;
		windows_[index].next = free_;
		free_ = index;
		--in_use_;
	}
	void end_lease(std::uint32_t index) override;
	MemoryWindow& operator[](std::uint32_t index) { return windows_[index]; }
	std::size_t in_use() const { return in_use_; }

private:
	ibv_pd* domain_;
	std::deque<MemoryWindow> windows_;  // they stay where they are
	std::uint32_t free_ = none;
	std::size_t in_use_ = 0;
};

}  // namespace verbena::channel
