// The resources that all RC channels of one transport draw on. The transport owns them; each part
// of a channel uses them through an RcOwner and does not see the transport.
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

// A channel's place in its transport's table. Slots are reused; the generation distinguishes their
// users.
struct ChannelId {
	std::uint32_t slot = QpnTable::none;
	std::uint32_t generation = 0;
};

// Counts since the transport was opened, over all of its channels.
struct RcCounters {
	std::uint64_t frames_sent = 0, frames_inline = 0, frames_received = 0;
	std::uint64_t messages_sent = 0, messages_received = 0, messages_coalesced = 0;
	std::uint64_t credit_frames = 0, want_frames = 0, heartbeats = 0;
	std::uint64_t bytes_sent = 0, bytes_received = 0;
	std::uint64_t channels_opened = 0, channels_closed = 0, channels_lost = 0;
	std::uint64_t send_posts = 0, receive_posts = 0;  // calls, each with a list
	std::uint64_t send_completions = 0;               // one for each request that was signalled
	std::uint64_t reads = 0, writes = 0, windows_bound = 0;
	std::uint32_t offers_most = 0;  // the most that one channel had under way
};

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
	// Channels that found no unit to send from, and channels that found no registered memory,
	// oldest first. The transport resumes them when some is given back; a channel that has ended
	// meanwhile is skipped.
	std::vector<ChannelId> waiting_for_units, waiting_for_memory;
};

// The owner of a channel's parts (the RcChannel), as those parts see it: the shared resources, the
// queues of channels that wait for some of them, and the way to end the channel.
class RcOwner {
public:
	RcOwner(RcShared& shared, ChannelId id) : shared_(shared), id_(id) {}
	RcOwner(const RcOwner&) = delete;
	RcOwner& operator=(const RcOwner&) = delete;

	RcShared& shared() const { return shared_; }
	ChannelId id() const { return id_; }
	// The channel is resumed once, when a unit or registered memory may be free. Asking again
	// changes nothing.
	void wait_for_units() {
		if (!std::exchange(waits_for_units_, true)) shared_.waiting_for_units.push_back(id_);
	}
	void wait_for_memory() {
		if (!std::exchange(waits_for_memory_, true)) shared_.waiting_for_memory.push_back(id_);
	}
	// Ends the channel: nothing is sent or received any more, and everything that waits in it
	// fails. Later calls change nothing.
	virtual void fail(Trouble trouble, std::string reason) = 0;

protected:
	~RcOwner() = default;
	// The channel was taken off the queue.
	void stop_waiting_for_units() { waits_for_units_ = false; }
	void stop_waiting_for_memory() { waits_for_memory_ = false; }

private:
	RcShared& shared_;
	ChannelId id_;
	bool waits_for_units_ = false, waits_for_memory_ = false;
};

}  // namespace verbena::channel
