// How much of a stream may be under way, in bytes, without I/O. Each end has a window for what it reads, and counts
// what the peer's has left for what it writes.
//
// A stream begins with `stream_window_min` both ways. A reader that wants more says so at once; what its program has
// read it grants again. A writer sends as long as anything is left, so one item may be larger than the window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/rpc/frame.h"

namespace verbena::rpc {

inline constexpr std::uint32_t stream_window_min = 64 << 10, stream_window_max = 1 << 30;

// An item counts with its header, so small ones are bounded too.
constexpr std::size_t item_cost(std::size_t body) { return FrameHeader::bytes + body; }

class ReadWindow {
public:
	explicit ReadWindow(std::uint32_t size)
		: size_(std::clamp(size, stream_window_min, stream_window_max)), room_(size_) {}

	// What the writer is told when the stream begins; 0: nothing.
	std::uint32_t first_grant() const { return size_ - stream_window_min; }
	// False: the writer had no room left.
	bool arrive(std::size_t cost) {
		if (room_ <= 0) return false;
		room_ -= static_cast<std::int64_t>(cost);
		return true;
	}
	// The program has read it. What the writer is to be told now; 0: not yet, there is enough left.
	std::uint32_t consume(std::size_t cost) {
		owed_ += static_cast<std::uint32_t>(cost);
		if (owed_ < size_ / 2) return 0;
		room_ += owed_;
		return std::exchange(owed_, 0);
	}

private:
	std::uint32_t size_;
	std::int64_t room_;
	std::uint32_t owed_ = 0;
};

class WriteWindow {
public:
	bool open() const { return left_ > 0; }
	void spend(std::size_t cost) { left_ -= static_cast<std::int64_t>(cost); }
	// False: more than any reader has.
	bool grant(std::uint32_t bytes) { return (left_ += bytes) <= stream_window_max; }

private:
	std::int64_t left_ = stream_window_min;
};

}  // namespace verbena::rpc
