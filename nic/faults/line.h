// SPDX-License-Identifier: Apache-2.0
// The line to one peer under faults: packets that have left the adapter and have not reached the
// network yet, because they are delayed or because the line is slow.
//
// Threads: one at a time. Time is an argument.
// Owns: the packets.
// Invariants: at most packets_max packets; those with the same time leave in the order in which
//   they were added.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "nic/wire/flow.h"

namespace verbena::faults {

class Line {
public:
	struct Packet {
		wire::Flow flow;
		std::vector<std::byte> bytes;  // the UDP payload
	};

	// Adds a packet that the line transmits when those before it have been transmitted, and that
	// leaves `delay` later. `bits_per_second` is the rate of the line; 0: no limit. False: the line
	// is full, so the packet is lost.
	bool add(Packet, Nanoseconds now, Nanoseconds delay, std::uint64_t bits_per_second);

	bool empty() const { return packets_.empty(); }
	// When the next packet leaves; `never` if there is none.
	Nanoseconds due() const { return packets_.empty() ? never : packets_.begin()->first.first; }
	// The next packet; there must be one.
	Packet& front() { return packets_.begin()->second; }
	void pop() { packets_.erase(packets_.begin()); }

	static constexpr std::size_t packets_max = 1024;

private:
	using Moment = std::pair<Nanoseconds, std::uint64_t>;  // the time, and the number of the packet
	std::map<Moment, Packet> packets_;
	std::uint64_t added_ = 0;
	Nanoseconds free_at_ = 0;  // the packets so far are transmitted by then
};

}  // namespace verbena::faults
