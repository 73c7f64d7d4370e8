// Between a slot (the NIC's native form, slot.h) and RoCEv2 packets (UDP payloads).
//
// A slot may hold a run of packets of one message. `packet_count` says how many there are at its path MTU, and each of
// them by its index in the run is a header, a piece of the slot's payload and a trailer (pad and ICRC). The payload
// stays where it is, so that a link can hand all three to the kernel as they lie:
//
//     for (std::uint32_t i = 0; i < packet_count(slot); ++i) {
//         const Piece piece = piece_of(slot, i);
//         write_header(slot, piece, header);
//         write_trailer(flow, ip_id, {header, payload.subspan(piece.payload_offset, piece.payload_bytes),
//         piece.pad_count}, trailer);
//     }
//
// `write_packet` puts the whole into one buffer. `parse` is the way back: it trusts nothing, and what it refuses it
// names. Pure; any thread.
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

inline constexpr std::size_t header_bytes_max = 40;  // BTH and AtomicETH: the longest that an opcode of slot.h has
inline constexpr std::size_t trailer_bytes_max = 3 + icrc_size;
inline constexpr std::size_t payload_bytes_max = 4096;
inline constexpr std::size_t packet_bytes_max = header_bytes_max + payload_bytes_max + icrc_size;

// How many packets the slot is: more than one only for SEND, WRITE and READ RESPONSE of a connected transport, longer
// than a path MTU.
std::uint32_t packet_count(const Slot& slot);

// One packet of a slot's run.
struct Piece {
	Opcode opcode;                 // as on the wire: by position in the message
	Psn24 psn;
	std::uint32_t payload_offset;  // into the slot's payload
	std::uint16_t payload_bytes;
	std::uint8_t header_bytes;
	std::uint8_t pad_count;
	bool last_of_run;  // carries the flags of the slot: AckReq and, at the end of a message, SE

	std::size_t wire_bytes() const { return std::size_t{header_bytes} + payload_bytes + pad_count + icrc_size; }
};
Piece piece_of(const Slot& slot, std::uint32_t index);

// Writes the BTH and extended headers of a piece of `slot`; returns their size.
std::size_t write_header(const Slot& slot, const Piece& piece, std::span<std::byte, header_bytes_max> to);

// Writes pad and ICRC of a packet; returns their size. `ip_id` is ignored for IPv6.
std::size_t write_trailer(
	const Flow& flow, std::uint16_t ip_id, const IcrcInput& packet, std::span<std::byte, trailer_bytes_max> to);

// The whole packet `index` of a slot, whose payload begins at `payload`; returns its size. `to` has room for it
// (packet_bytes_max).
std::size_t write_packet(const Slot& slot, std::uint32_t index, const std::byte* payload, const Flow& flow,
	std::uint16_t ip_id, std::span<std::byte> to);

enum class DropReason : std::uint8_t {
	too_short,        // for the headers that its opcode announces
	too_long,         // above the largest path MTU
	wrong_version,    // BTH.TVer
	unknown_opcode,
	foreign_p_key,    // not a member of the default partition
	wrong_length,     // payload where the opcode has none
	wrong_pad,        // pad without payload, or the whole not a multiple of four bytes
	wrong_icrc,
	count
};
std::string_view name(DropReason reason);

struct Parsed {
	Slot slot;  // one packet; `payload_line` and `path_mtu` mean nothing; the source QP is known of a datagram only
	std::span<const std::byte> payload;  // within the datagram
	std::uint16_t ip_id;                 // with which the ICRC is right (see icrc.h)
};

// `datagram` is a UDP payload, `flow` what the kernel said of it (only addresses and ports are looked at),
// `likely_ip_id` the first guess.
std::expected<Parsed, DropReason> parse(
	const Flow& flow, std::span<const std::byte> datagram, std::uint16_t likely_ip_id);

}  // namespace verbena::wire
