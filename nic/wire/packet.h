// SPDX-License-Identifier: Apache-2.0
// The conversion between a slot (the NIC's native form, slot.h) and RoCEv2 packets (UDP payloads).
//
// A slot may hold a run of packets of one message. `packet_count` gives their number at the slot's
// path MTU. Each packet consists of a header, a piece of the slot's payload and a trailer (pad and
// ICRC). The payload is not copied, so a link can pass all three to the kernel as an iovec:
//
//     for (std::uint32_t i = 0; i < packet_count(slot); ++i) {
//         const Piece piece = piece_of(slot, i);
//         const std::size_t size = write_header(slot, piece, header);
//         const auto bytes = payload.subspan(piece.payload_offset, piece.payload_bytes);
//         write_trailer(IcrcPrefix(flow, piece.wire_bytes()), ip_id,
//             {header.first(size), bytes, piece.pad_count}, trailer);
//     }
//
// `write_packet` writes one packet into one buffer. `parse` is the reverse.
//
// Threads: any; no function keeps state.
// Errors: `parse` trusts nothing and returns the reason for which it refuses a packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "nic/wire/flow.h"
#include "nic/wire/icrc.h"
#include "nic/wire/slot.h"

namespace verbena::wire {

inline constexpr std::size_t header_bytes_max = 40;  // BTH and AtomicETH, the longest combination
inline constexpr std::size_t trailer_bytes_max = 3 + icrc_size;
inline constexpr std::size_t payload_bytes_max = 4096;
inline constexpr std::size_t packet_bytes_max = header_bytes_max + payload_bytes_max + icrc_size;

// The number of packets into which the slot is cut at its path MTU. The number exceeds 1 only for a
// SEND, WRITE or READ response of a connected transport whose payload is longer than the path MTU.
std::uint32_t packet_count(const Slot& slot);

// One packet of a slot's run.
struct Piece {
	Opcode opcode;  // that of the packet's position in the message, unlike the slot's
	Psn24 psn;
	std::uint32_t payload_offset;  // into the slot's payload
	std::uint16_t payload_bytes;
	std::uint8_t header_bytes;
	std::uint8_t pad_count;
	bool last_of_run;  // only this packet carries the slot's flags AckReq and SE

	// The size of the UDP payload.
	std::size_t wire_bytes() const { return std::size_t{header_bytes} + payload_bytes + pad_count + icrc_size; }
};
// `index` is less than packet_count(slot).
Piece piece_of(const Slot& slot, std::uint32_t index);

// Writes the BTH and extended headers of a piece of `slot`; returns their size.
std::size_t write_header(const Slot& slot, const Piece& piece, std::span<std::byte, header_bytes_max> to);

// Writes the pad and the ICRC of a packet; returns their size. `prefix` is of its flow and its
// wire_bytes(). `ip_id` is ignored for IPv6. A packet of ours has DF set.
std::size_t write_trailer(
	const IcrcPrefix& prefix, std::uint16_t ip_id, const IcrcInput& packet, std::span<std::byte, trailer_bytes_max> to);

// Writes the whole packet `index` of a slot whose payload begins at `payload`; returns its size.
// `to` must have room for it (packet_bytes_max).
std::size_t write_packet(const Slot& slot, std::uint32_t index, const std::byte* payload, const Flow& flow,
	std::uint16_t ip_id, std::span<std::byte> to);

enum class DropReason : std::uint8_t {
	too_short,  // shorter than the headers of its opcode
	too_long,  // the payload exceeds the largest path MTU
	wrong_version,  // TVer in the BTH is not 0
	unknown_opcode,
	foreign_p_key,  // not the default partition
	wrong_length,  // payload although the opcode has none
	// Pad without payload or before the end of the message, or a packet whose size is no multiple
	// of four bytes.
	wrong_pad,
	wrong_icrc,
	// Not an error: a valid congestion notification (IBA Annex A17), which our sender does not act
	// on.
	congestion_notification,
	count  // not a reason: the number of reasons
};
// The enumerator's name, for reports.
std::string_view name(DropReason reason);

struct Parsed {
	// One packet. `payload_line`, the path MTU and the lap have no meaning; the source QP is known
	// only for a datagram.
	Slot slot;
	std::span<const std::byte> payload;  // a part of the datagram
	IpFields ip;  // the fields of the IPv4 header that the ICRC covers
};

// Checks and parses a UDP payload (IBA 9.6.1). `flow` has the addresses and ports that the kernel
// reported for the packet; the other fields of `flow` are ignored. The kernel does not report the
// fields of the IPv4 header that the ICRC covers; `likely` is the first guess (icrc.h).
std::expected<Parsed, DropReason> parse(const Flow& flow, std::span<const std::byte> datagram, IpFields likely);
// The same for one of several datagrams of a flow and a size.
std::expected<Parsed, DropReason> parse(const IcrcPrefix& prefix, std::span<const std::byte> datagram, IpFields likely);

}  // namespace verbena::wire
