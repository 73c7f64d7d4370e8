// SPDX-License-Identifier: Apache-2.0
// Flow control of one logical channel: the arithmetic, without I/O.
//
// A window is a number of bytes, fixed when the channel is opened. Each frame of a message is
// charged its bytes and a fixed amount for the cost of keeping it. Limits are cumulative and wrap,
// so repeating a limit or losing an older one changes nothing.
//
// Invariants: a receiver announces a new limit when it is half a window ahead of the last one. So a
//   sender whose peer has taken everything has at least half of the window, and no frame is charged
//   more than that: a frame that waits will always fit eventually.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::channel {

// Charged for keeping a frame, besides its bytes.
inline constexpr std::uint32_t mux_charge = 32;
inline constexpr std::uint32_t mux_window_min = 512, mux_window_max = 1u << 30;

class MuxSendWindow {
public:
	void open(std::uint32_t window) {
		window_ = window;
		limit_ = window;
	}
	std::uint32_t available() const { return limit_ - sent_; }
	void sent(std::uint32_t charge) { sent_ += charge; }
	// The most bytes that a frame may have.
	std::uint32_t frame_max() const { return window_ / 2 - mux_charge; }
	// Takes the peer's limit. False: no correct peer sends it.
	bool learn(std::uint32_t limit) {
		if (static_cast<std::int32_t>(limit - limit_) < 0) return true;
		if (limit - sent_ > window_) return false;
		limit_ = limit;
		return true;
	}

private:
	std::uint32_t window_ = 0, limit_ = 0, sent_ = 0;
};

class MuxReceiveWindow {
public:
	explicit MuxReceiveWindow(std::uint32_t window) : window_(window), limit_(window), announced_(window) {}

	// A frame has arrived. False: the sender had no credit for it.
	bool arrived(std::uint32_t charge) {
		if (limit_ - received_ < charge) return false;
		received_ += charge;
		return true;
	}
	// The program has taken frames with this charge.
	void released(std::uint32_t charge) { limit_ += charge; }
	// Whether a credit frame is to be sent.
	bool due() const { return limit_ - announced_ >= window_ / 2; }
	// The limit for a credit frame that is sent now.
	std::uint32_t tell() { return announced_ = limit_; }

private:
	std::uint32_t window_, limit_, announced_, received_ = 0;
};

}  // namespace verbena::channel
