// SPDX-License-Identifier: Apache-2.0
// Invariant CRC: the last four bytes of every RoCEv2 packet (IBA Annex A17).
//
// It covers eight bytes of ones, the IP header, the UDP header and everything after them up to
// itself. Fields that routers may change count as ones: IPv4 type of service, time to live and
// header checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; byte 4 of the
// BTH. It is stored little-endian. We take IPv4 options as absent, as RoCEv2 senders do.
//
// It also covers the IPv4 identification and the DF bit, which an ordinary socket does not deliver
// to a receiver. But the CRC is linear: the difference between the ICRC that arrived and that for a
// guess, divided by x^8 for each byte after the start of the identification, is the difference of
// the identification and, in the other 16 bits, that of the flags and the fragment offset. So
// `matching_ip_fields` solves for both fields, and the 15 bits that must be zero remain as a check.
// A caller that knows the fields (our senders set DF and use the index of the segment), or learns
// them from a flow (ip_habit.h), compares the solution with them, which checks more bits.
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

// A UDP payload from the BTH on, in the pieces in which a sender has it. `headers` begins with the
// BTH; it may be the whole.
struct IcrcInput {
	std::span<const std::byte> headers;
	std::span<const std::byte> payload;
	std::size_t pad_count = 0;  // zero bytes after the payload, 0 to 3
};

// The fields of an IPv4 header that the ICRC covers and a receiver does not see.
struct IpFields {
	std::uint16_t id = 0;
	bool dont_fragment = true;  // the DF bit
	friend bool operator==(const IpFields&, const IpFields&) = default;
};

// The checksum of what the ICRC covers before the BTH. Packets of one flow and size differ there in
// the IPv4 fields alone, and the difference that these make is looked up.
class IcrcPrefix {
public:
	// `bytes`: the size of the UDP payload with its ICRC.
	IcrcPrefix(const Flow& flow, std::size_t bytes);

	std::uint32_t with(IpFields fields) const;  // the fields are ignored for IPv6
	std::size_t bytes() const { return bytes_; }
	bool is_ipv4() const { return is_ipv4_; }

private:
	std::size_t bytes_;
	bool is_ipv4_;
	std::uint32_t crc_;  // with the fields {}
};

// The ICRC of a packet, whose size is that of the prefix.
std::uint32_t icrc(const IcrcPrefix& prefix, IpFields ip, const IcrcInput& packet);
std::uint32_t icrc(const Flow& flow, IpFields ip, const IcrcInput& packet);

// Returns the IPv4 fields for which the ICRC of `datagram` is right, or nothing if it is wrong for
// all. `datagram` is a UDP payload with its ICRC, of 16 to 65,000 bytes. `likely` is tried first,
// and costs least. An IPv6 packet has no such fields: the result is `likely` or nothing.
std::optional<IpFields> matching_ip_fields(
	const IcrcPrefix& prefix, std::span<const std::byte> datagram, IpFields likely);

}  // namespace verbena::wire
