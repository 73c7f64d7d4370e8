// SPDX-License-Identifier: Apache-2.0
// The way in which one sender sets the fields of its IPv4 headers that the ICRC covers and a
// receiver does not see (icrc.h): learned from its packets, and then required of them.
//
// A receiver solves for the fields of each packet, and every bit of the solution that it accepts
// unseen is a bit less that the ICRC proves: all of 2^17 solutions leave 15 bits of 32. A sender
// with a known DF bit leaves 16. A sender like ours, which numbers the packets of a batch from 0,
// leaves 26, because its identifications stay below 64.
//
// Threads: a value; its owner decides.
// Invariants: a sender's first valid packet is accepted with any fields. After
//   `refused_until_forgotten` packets in a row that were refused here, the habit is unknown again,
//   so a sender that has changed (another driver, another path) loses packets only for a moment.
#pragma once

#include <cstdint>

#include "nic/wire/icrc.h"

namespace verbena::wire {

class IpHabit {
public:
	// Identifications below this are those of a batch (UdpBatch::packets_max).
	static constexpr std::uint16_t batch_ids = 64;
	// A counter that begins at 0 leaves the range long before this many packets.
	static constexpr std::uint8_t packets_until_batches_are_known = 255;
	static constexpr std::uint8_t refused_until_forgotten = 16;

	// The first guess for the packet at this position of a batch.
	IpFields guess(std::uint16_t position) const { return {position, !known_ || dont_fragment_}; }

	// Returns whether the sender sends packets with these fields, for which the ICRC of one is
	// right. Learns from the answer.
	bool accept(IpFields fields) {
		const bool in_batch = fields.id < batch_ids;
		if (known_ && (fields.dont_fragment != dont_fragment_ || (batches_known() && !in_batch))) {
			if (++refused_ == refused_until_forgotten) *this = {};
			return false;
		}
		known_ = true;
		dont_fragment_ = fields.dont_fragment;
		refused_ = 0;
		if (!in_batch) batch_packets_ = 0;
		else if (!batches_known()) ++batch_packets_;
		return true;
	}

private:
	bool batches_known() const { return batch_packets_ == packets_until_batches_are_known; }

	bool known_ = false;
	bool dont_fragment_ = true;
	std::uint8_t batch_packets_ = 0;  // consecutive packets with an identification below batch_ids
	std::uint8_t refused_ = 0;        // consecutive packets
};

}  // namespace verbena::wire
