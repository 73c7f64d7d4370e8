// SPDX-License-Identifier: Apache-2.0
// The reason for which a responder refuses a request, for the requester's explanation. Same host
// only: RoCEv2 carries nothing but the syndrome of a NAK.
//
// It travels in a slot of its own, just before the NAK (slot.h). A requester that does not know the
// opcode drops the slot. The peer is untrusted: a false diagnosis makes a false sentence, and
// nothing else.
#pragma once

#include <cstdint>
#include <cstring>

#include "nic/wire/slot.h"

namespace verbena::wire {

inline constexpr Opcode diagnosis_opcode{0xfd};

struct Diagnosis {
	enum class Cause : std::uint8_t {
		none,
		no_receive,  // begin: receives posted so far, end: those used
		key_unknown,  // no region or window has, or lately had, the key
		key_retired,  // the region [begin, end) had it until `age` nanoseconds ago
		key_domain,  // it belongs to another protection domain than the queue pair
		key_bounds,  // the region or window is [begin, end)
		key_rights,  // the region or window has only the rights `access`
		key_memory,  // the rights are there, but not the memory: it was unmapped
		queue_pair_rights,  // the queue pair's access flags are `access`
		reads,  // more than max_dest_rd_atomic, which is `begin`
		unaligned,
		too_long,  // the receive wr_id has `begin` bytes, `end` or more have come
		receive_fault,  // segment `begin` of the receive wr_id, by the key cause `detail`
		sequence,  // the packets make no message; the path MTU there is `begin`
		count
	};

	Cause cause = Cause::none;
	Cause detail = Cause::none;
	std::uint8_t access = 0;  // rights that there are
	std::uint8_t wanted = 0;  // rights that were needed
	std::uint32_t key = 0;
	std::uint64_t begin = 0, end = 0;
	std::uint64_t wr_id = 0;
	std::uint64_t age = 0;

	static Diagnosis of(const Slot& slot) {
		Diagnosis d;
		std::memcpy(&d, slot.bytes, sizeof d);
		if (d.cause >= Cause::count) d.cause = Cause::none;
		if (d.detail >= Cause::count) d.detail = Cause::none;
		return d;
	}
};
static_assert(sizeof(Diagnosis) == Slot::inline_bytes_max);

}  // namespace verbena::wire
