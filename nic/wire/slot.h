// A packet in the NIC's native form: 64 bytes that hold the parsed headers and either the payload or where it lies.
//
// The same struct is what a same-host ring carries between two processes and what the UDP parser produces, so the
// transport has one input and one output format. One slot may carry a run of consecutive packets of a message: `length`
// is then more than the path MTU, `psn` is that of the first packet, and the opcode says how the run begins and ends
// (FIRST: begins a message and does not end it; LAST: ends it; ONLY: both; MIDDLE: neither).
//
//     byte  0  lap:8           which round of the ring this is, stored last with the source QP: it publishes the slot
//              source QP:24    (low bits) who sends; a wire packet tells it only in a DETH, and leaves 0 here otherwise
//           4  length:32       payload bytes
//           8  opcode:8        destination QP:24 (high bits)
//          12  flags:8         PSN:24 (high bits)
//          16  payload_line:32 64-byte line of the payload arena, or inline_payload, or lent_payload
//          20  word:32         ImmDt, IETH R_Key or AETH, in host byte order, by opcode
//          24  40 bytes        extended header (RETH 16, atomic 32, DETH 8, atomic result 8), then the inline payload;
//          or a Lent
//
// Immediate data is the exception to host order: it is opaque and kept as the application gave it (network byte order).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/wire/numbers.h"
#include "nic/wire/opcode.h"

namespace verbena::wire {

struct Reth {
	std::uint64_t address = 0;
	Rkey rkey;
	std::uint32_t dma_length = 0;
};

struct AtomicEth {
	std::uint64_t address = 0;
	Rkey rkey;
	std::uint32_t reserved = 0;
	std::uint64_t swap_or_add = 0;
	std::uint64_t compare = 0;
};

struct Deth {
	std::uint32_t q_key = 0;
	// Source QP in the high 24 bits; the low 8 index the sending link's table of address pairs (same host only).
	std::uint32_t source = 0;
	Qpn source_qp() const { return {source >> 8}; }
	std::uint8_t address_index() const { return static_cast<std::uint8_t>(source); }
};

// Same host only: the payload lies in a file that the sender has mapped and the receiver may map, too
// (docs/decisions/0016).
struct Lent {
	std::uint64_t file = 0;  // its inode number
	std::uint64_t offset = 0;  // in the file
	std::uint32_t descriptor = 0;  // the sender's, of that file
	std::uint32_t reserved = 0;
};

enum SlotFlags : std::uint8_t { slot_solicited = 1, slot_ack_requested = 2 };
// Bits 4 to 7 of a slot's flags: path MTU as in `enum ibv_mtu` (1 = 256 ... 5 = 4096), so that a link can cut a run
// into packets.
inline constexpr unsigned slot_mtu_shift = 4;

struct alignas(64) Slot {
	static constexpr std::uint32_t inline_payload = 0xffffffff;
	static constexpr std::uint32_t lent_payload = 0xfffffffe;
	static constexpr std::uint32_t inline_bytes_max = 40;

	std::uint32_t lap_source;
	std::uint32_t length;
	std::uint32_t destination_opcode;
	std::uint32_t psn_flags;
	std::uint32_t payload_line;
	std::uint32_t word;
	union {
		std::byte bytes[40];
		Reth reth;
		AtomicEth atomic;
		Deth deth;
		std::uint64_t atomic_result;
		Lent lent;
	};

	Slot() : bytes{} {}

	Opcode opcode() const { return Opcode(destination_opcode & 0xff); }
	Qpn source() const { return {lap_source & 0xffffff}; }
	Qpn destination() const { return {destination_opcode >> 8}; }
	Psn24 psn() const { return {psn_flags >> 8}; }
	bool solicited() const { return psn_flags & slot_solicited; }
	bool ack_requested() const { return psn_flags & slot_ack_requested; }
	std::uint32_t path_mtu() const { return 128u << (psn_flags >> slot_mtu_shift & 0xf); }
	std::uint8_t syndrome() const { return static_cast<std::uint8_t>(word >> 24); }
	std::uint32_t msn() const { return word & 0xffffff; }

	void set_bth(Opcode opcode, Qpn destination, Psn24 psn, std::uint8_t flags) {
		destination_opcode = destination.value << 8 | static_cast<std::uint32_t>(opcode);
		psn_flags = (psn.value & 0xffffff) << 8 | flags;
	}
	void set_aeth(std::uint8_t syndrome, std::uint32_t msn) { word = std::uint32_t{syndrome} << 24 | (msn & 0xffffff); }
};
static_assert(sizeof(Slot) == 64);

// In the place of the opcode on a same-host link: another host's packet that reached the wrong process of this one
// (several share port 4791). The payload is a ForwardedPacket (slot_ring.h) and the packet as it came. Never on a wire.
inline constexpr Opcode forwarded_packet{0xff};
// Likewise: a management datagram for queue pair 1. The payload is an AddressPair, the sender's first, and the
// datagram.
inline constexpr Opcode management_datagram{0xfe};

// Bytes of the slot's tail that the extended header takes; the inline payload follows it.
constexpr std::uint32_t extension_bytes(const OpcodeFacts& f) {
	return f.reth                                      ? sizeof(Reth)
		: f.atomic_eth                                 ? sizeof(AtomicEth)
		: f.deth                                       ? sizeof(Deth)
		: f.operation == Operation::atomic_acknowledge ? 8
													   : 0;
}

// AETH syndromes (9.7.5.2.1): the top three bits are the kind.
namespace syndrome {
inline constexpr std::uint8_t ack = 0x1f;  // credits not limited
inline constexpr std::uint8_t rnr_nak = 0x20;  // | RNR timer code, 5 bits
inline constexpr std::uint8_t nak_sequence_error = 0x60;
inline constexpr std::uint8_t nak_invalid_request = 0x61;
inline constexpr std::uint8_t nak_remote_access = 0x62;
inline constexpr std::uint8_t nak_remote_operation = 0x63;
constexpr bool is_ack(std::uint8_t s) { return (s & 0xe0) == 0x00; }
constexpr bool is_rnr(std::uint8_t s) { return (s & 0xe0) == 0x20; }
}  // namespace syndrome

}  // namespace verbena::wire
