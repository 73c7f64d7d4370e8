// SPDX-License-Identifier: Apache-2.0
// The flow control of a stream, in bytes and without I/O. Each end has a ReadWindow for the items
// that it receives, and a WriteWindow that mirrors the peer's for the items that it sends.
//
// A stream starts with a window of `stream_window_min` bytes in each direction. A reader with a
// larger window grants the difference at once, and grants again what its program has consumed. A
// writer may send while its window is positive, so that one item may exceed it.
//
// Threads: belongs to the stream's I/O thread.
// Errors: the peer is untrusted: arrive() and grant() return false for what no peer may send.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/rpc/frame.h"

namespace verbena::rpc {

inline constexpr std::uint32_t stream_window_min = 64 << 10, stream_window_max = 1 << 30;

// The cost of an item includes its header, so that the number of tiny items is bounded as well.
constexpr std::size_t item_cost(std::size_t body) { return FrameHeader::bytes + body; }

// The reader's side: how much the peer may still send.
class ReadWindow {
public:
	explicit ReadWindow(std::uint32_t size)
		: size_(std::clamp(size, stream_window_min, stream_window_max)), room_(size_) {}

	// The bytes to grant when the stream starts; 0: no window frame is needed.
	std::uint32_t first_grant() const { return size_ - stream_window_min; }
	// Accounts for an item that has arrived. False: the writer had no room left.
	bool arrive(std::size_t cost) {
		if (room_ <= 0) return false;
		room_ -= static_cast<std::int64_t>(cost);
		return true;
	}
	// Accounts for an item that the program has read. Returns the bytes to grant now; 0 until half
	// the window has been consumed, which saves window frames.
	std::uint32_t consume(std::size_t cost) {
		ungranted_ += static_cast<std::uint32_t>(cost);
		if (ungranted_ < size_ / 2) return 0;
		room_ += ungranted_;
		return std::exchange(ungranted_, 0);
	}

private:
	std::uint32_t size_;
	std::int64_t room_;  // negative after an item that exceeded the window
	std::uint32_t ungranted_ = 0;  // consumed, and not granted again yet
};

// The writer's side: how much this end may still send.
class WriteWindow {
public:
	bool open() const { return left_ > 0; }
	void spend(std::size_t cost) { left_ -= static_cast<std::int64_t>(cost); }
	// Adds a grant of the peer's. False: the sum is more than any reader's window.
	bool grant(std::uint32_t bytes) { return (left_ += bytes) <= stream_window_max; }

private:
	std::int64_t left_ = stream_window_min;
};

}  // namespace verbena::rpc
