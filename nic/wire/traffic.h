// SPDX-License-Identifier: Apache-2.0
// The packets and octets that slots and acknowledgement records stand for, as a port counts them.
//
// On one host nothing is sent as a packet. So that a port's counters mean the same for both kinds
// of links, a slot counts as the RoCEv2 packets into which a UDP path would cut it (packet.h). The
// octets are those from the BTH to the ICRC, the UDP payload.
//
// Threads: any; no function keeps state.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nic/wire/slot.h"

namespace verbena::wire {

struct Traffic {
	std::uint64_t packets = 0;
	std::uint64_t octets = 0;

	Traffic& operator+=(const Traffic& more) {
		packets += more.packets;
		octets += more.octets;
		return *this;
	}
	// Not below 0.
	Traffic& operator-=(const Traffic& less) {
		packets -= std::min(packets, less.packets);
		octets -= std::min(octets, less.octets);
		return *this;
	}
	friend Traffic operator*(std::uint64_t times, const Traffic& one) {
		return {times * one.packets, times * one.octets};
	}
	friend bool operator==(const Traffic&, const Traffic&) = default;
};

namespace detail {

inline constexpr std::uint32_t bth_octets = 12, deth_octets = 8, aeth_octets = 4, mad_octets = 256, icrc_octets = 4;

}  // namespace detail

// One management datagram.
inline constexpr Traffic traffic_of_management{
	1, detail::bth_octets + detail::deth_octets + detail::mad_octets + detail::icrc_octets};

namespace detail {

// The two opcodes that are no packet's. A packet that is forwarded to its owner on the same host
// was counted when it arrived there.
constexpr Traffic traffic_of_internal(Opcode opcode) {
	return opcode == management_datagram ? traffic_of_management : Traffic{};
}

}  // namespace detail

// One acknowledgement record.
inline constexpr Traffic traffic_of_ack{1, detail::bth_octets + detail::aeth_octets + detail::icrc_octets};

// A slot with `length` bytes of payload; the slot's own `length` is not read.
inline Traffic traffic_of(const Slot& slot, std::uint32_t length) {
	const OpcodeFacts& f = facts(slot.opcode());
	if (!f.known) [[unlikely]]
		return detail::traffic_of_internal(slot.opcode());
	const std::uint32_t padded = (length + 3) & ~3u;
	const unsigned mtu_shift = 7 + (slot.psn_flags >> slot_mtu_shift & 0xf);
	if (length <= 1u << mtu_shift) [[likely]]
		return {1, f.header_bytes + padded + detail::icrc_octets};
	// Each packet has a BTH and an ICRC. The slot's extended headers go to the first or the last
	// packet, except that both ends of a READ response have an AETH.
	const std::uint32_t packets = ((length - 1) >> mtu_shift) + 1;
	const std::uint32_t second_aeth = f.aeth && f.first && f.last ? detail::aeth_octets : 0;
	return {packets,
		std::uint64_t{packets} * (detail::bth_octets + detail::icrc_octets) + f.header_bytes - detail::bth_octets +
			second_aeth + padded};
}

// A message of `length` bytes that was not sent in slots, as packets of an MTU of 2^mtu_shift
// bytes. `extension`: the octets of its extended headers.
inline Traffic traffic_of_message(std::uint32_t length, unsigned mtu_shift, std::uint32_t extension) {
	const std::uint32_t packets = length <= 1u << mtu_shift ? 1 : ((length - 1) >> mtu_shift) + 1;
	return {packets,
		std::uint64_t{packets} * (detail::bth_octets + detail::icrc_octets) + extension +
			((std::uint64_t{length} + 3) & ~std::uint64_t{3})};
}

}  // namespace verbena::wire
