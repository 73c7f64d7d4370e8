// Invariant CRC: the four bytes that end every RoCEv2 packet (InfiniBand Architecture Specification, annex A17).
//
// It covers eight bytes of ones, then the IP header, the UDP header and everything behind them up to itself, with the
// fields that routers may change taken as ones: IPv4 type of service, time to live and header checksum; IPv6 traffic
// class, flow label and hop limit; the UDP checksum; byte 4 of the BTH. It is stored little-endian. The DF bit is taken
// as set and IPv4 options as absent: that is how RoCEv2 is sent.
//
// The IPv4 identification is covered too, and no ordinary socket tells a receiver what it was. But the CRC is linear:
// the difference between what arrived and what identification 0 would give, moved back over the bytes that followed the
// field, is the field. So `matching_ip_id` solves for it, and what remains as a check is that the other 16 bits of the
// moved difference are zero. A caller that knows which identification to expect (our own senders' is the index of the
// segment) compares, and has the whole 32 bits.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/wire/flow.h"

namespace verbena::wire {

inline constexpr std::size_t icrc_size = 4;

// A UDP payload from the BTH on, in the pieces in which a sender has it. `headers` is the BTH and at most 52 bytes
// after it.
struct IcrcInput {
	std::span<const std::byte> headers;
	std::span<const std::byte> payload;
	std::size_t pad_count = 0;  // zero bytes after the payload, 0 to 3
};

std::uint32_t icrc(const Flow& flow, std::uint16_t ip_id, const IcrcInput& packet);

// The IPv4 identification with which `datagram` (a UDP payload, ICRC included, of 16 to 65,000 bytes) carries a right
// ICRC, or nothing. `likely` is tried first and costs nothing more. An IPv6 packet has none: its answer is `likely`.
std::optional<std::uint16_t> matching_ip_id(
	const Flow& flow, std::span<const std::byte> datagram, std::uint16_t likely);

}  // namespace verbena::wire
