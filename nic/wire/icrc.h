// Invariant CRC: the last four bytes of every RoCEv2 packet (IBA Annex A17).
//
// It covers eight bytes of ones, the IP header, the UDP header and everything after them up to
// itself. Fields that routers may change count as ones: IPv4 type of service, time to live and
// header checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; byte 4 of the
// BTH. It is stored little-endian. We take the DF bit as set and IPv4 options as absent, as RoCEv2
// senders do.
//
// It also covers the IPv4 identification, which an ordinary socket does not deliver to a receiver.
// But the CRC is linear: the difference between the ICRC that arrived and that for identification
// 0, divided by x^8 for each byte after the field, is the field. So `matching_ip_id` solves for it,
// and the other 16 bits of that quotient, which must be zero, remain as a check. A caller that
// knows the identification (our senders use the index of the segment) compares all 32 bits.
//
// Threads: any; all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/wire/flow.h"

namespace verbena::wire {

inline constexpr std::size_t icrc_size = 4;

// A UDP payload from the BTH on, in the pieces in which a sender has it. `headers` is the BTH and
// up to 52 bytes after it.
struct IcrcInput {
	std::span<const std::byte> headers;
	std::span<const std::byte> payload;
	std::size_t pad_count = 0;  // zero bytes after the payload, 0 to 3
};

// The ICRC of a packet. `ip_id` is ignored for IPv6.
std::uint32_t icrc(const Flow& flow, std::uint16_t ip_id, const IcrcInput& packet);

// Returns the IPv4 identification for which the ICRC of `datagram` is right, or nothing if it is
// wrong for all. `datagram` is a UDP payload with its ICRC, of 16 to 65,000 bytes. `likely` is
// tried first. An IPv6 packet has no identification: the result is `likely` or nothing.
std::optional<std::uint16_t> matching_ip_id(
	const Flow& flow, std::span<const std::byte> datagram, std::uint16_t likely);

}  // namespace verbena::wire
