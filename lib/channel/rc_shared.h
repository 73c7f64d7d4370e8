// SPDX-License-Identifier: Apache-2.0
// The resources that all RC channels of one transport share (RcShared), and the view that the parts
// of one channel have of that channel (RcOwner). The transport owns the resources; the parts use
// them through their RcOwner and do not see the transport.
//
// Threads: the loop's thread only; nothing here is thread-safe.
// Owns: the units, the registered memory and the memory windows. The device's protection domain
//   outlives them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/channel.h"
#include "lib/channel/memory.h"
#include "lib/channel/options.h"
#include "lib/channel/qpn_table.h"
#include "lib/channel/units.h"
#include "lib/channel/windows.h"

namespace verbena::channel {

// A channel's place in its transport's table. Slots are reused; the generation distinguishes the
// channels that have used the same slot.
struct ChannelId {
	std::uint32_t slot = QpnTable::none;
	std::uint32_t generation = 0;
};

// Counts since the transport was opened, over all of its channels. `frames_*` and `bytes_*` count
// neither RDMA READs and WRITEs nor heartbeats. `channels_closed` counts destroyed channels,
// `channels_lost` those that ended otherwise than by a close of both ends. `reads` includes READs
// that fetch large messages.
struct RcCounters {
	std::uint64_t frames_sent = 0, frames_inline = 0, frames_received = 0;
	std::uint64_t messages_sent = 0, messages_received = 0, messages_coalesced = 0;
	std::uint64_t credit_frames = 0, want_frames = 0, heartbeats = 0;
	std::uint64_t bytes_sent = 0, bytes_received = 0;
	std::uint64_t channels_opened = 0, channels_closed = 0, channels_lost = 0;
	std::uint64_t send_posts = 0, receive_posts = 0;  // calls of ibv_post_*; each may post many
	// Send requests without a signal have none, unless they fail.
	std::uint64_t send_completions = 0;
	std::uint64_t reads = 0, writes = 0, windows_bound = 0;
	std::uint32_t offers_most = 0;  // the most offers that one channel had in flight
};

// A transport's shared resources and settings.
struct RcShared {
	// `memory_access`: the access rights of every region of `memory`, for ibv_reg_mr.
	RcShared(async::Loop& loop, const RcOptions& options, ibv_pd* domain, int memory_access)
		: loop(loop),
		  options(options),
		  units(domain, options.unit_bytes, options.units_max),
		  memory(domain, memory_access, options.memory),
		  windows(domain) {}

	async::Loop& loop;
	RcOptions options;
	RcCounters counters;
	UnitPool units;
	MemoryPool memory;
	WindowTable windows;
	// Channels that found no unit, and channels that found no registered memory, oldest first. The
	// transport resumes them when some may be free; it skips a channel that was destroyed
	// meanwhile.
	std::vector<ChannelId> waiting_for_units, waiting_for_memory;
};

// The RcChannel as its parts see it: they reach the shared resources, make the channel wait for
// some of them, and end the channel.
class RcOwner {
public:
	RcOwner(RcShared& shared, ChannelId id) : shared_(shared), id_(id) {}
	RcOwner(const RcOwner&) = delete;
	RcOwner& operator=(const RcOwner&) = delete;

	RcShared& shared() const { return shared_; }
	ChannelId id() const { return id_; }
	// Queue the channel: its handle_units() or handle_memory() is called once, when a unit or
	// registered memory may be free. Asking again before that changes nothing.
	void wait_for_units() {
		if (!std::exchange(waits_for_units_, true)) shared_.waiting_for_units.push_back(id_);
	}
	void wait_for_memory() {
		if (!std::exchange(waits_for_memory_, true)) shared_.waiting_for_memory.push_back(id_);
	}
	bool waits_for_units() const { return waits_for_units_; }
	bool waits_for_memory() const { return waits_for_memory_; }
	// Ends the channel: nothing is sent any more and nothing more arrives, and all waiting
	// operations fail. Later calls change nothing.
	virtual void fail(Trouble trouble, std::string reason) = 0;

protected:
	~RcOwner() = default;
	// The transport has taken the channel off the queue, so that it can be queued again.
	void stop_waiting_for_units() { waits_for_units_ = false; }
	void stop_waiting_for_memory() { waits_for_memory_ = false; }

private:
	RcShared& shared_;
	ChannelId id_;
	bool waits_for_units_ = false, waits_for_memory_ = false;
};

}  // namespace verbena::channel
