// SPDX-License-Identifier: Apache-2.0
// A packet in the NIC's native form: 64 bytes with the parsed headers and either the payload or its
// place.
//
// A ring between two processes of one host carries this struct, and the UDP parser produces it, so
// the transport has one input and one output format. One slot may carry a run of consecutive
// packets of a message. Then `length` exceeds the path MTU, `psn` belongs to the first packet, and
// the opcode describes the ends of the run: FIRST begins a message and does not end it, LAST ends
// it, ONLY does both, MIDDLE neither.
//
//     byte  0  bits 24 to 31   lap, the round of the ring; publishes the slot, so stored last
//              bits 0 to 23    source QP; 0 for a packet from UDP that has no DETH
//           4  32 bits         length: payload bytes
//           8  bits 8 to 31    destination QP
//              bits 0 to 7     opcode
//          12  bits 8 to 31    PSN
//              bits 0 to 7     flags (SlotFlags) and path MTU (slot_mtu_shift)
//          16  32 bits         payload_line: the number of the 64-byte line of the payload arena at
//                              which the payload begins, or a constant of Slot
//          20  32 bits         word: ImmDt, IETH R_Key or AETH, depending on the opcode
//          24  40 bytes        extended header (RETH 16, atomic 32, DETH 8, atomic result 8)
//                              and the inline payload, or the place of a shared payload
//
// All fields are in host byte order, except immediate data. The NIC does not interpret immediate
// data and keeps the bytes as the application gave them (network byte order).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nic/wire/numbers.h"
#include "nic/wire/opcode.h"

namespace verbena::wire {

// Extended headers, parsed; in host byte order.
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
	// The high 24 bits are the source QP. The low 8 index the table of address pairs of the sending
	// link.
	std::uint32_t source = 0;
	Qpn source_qp() const { return {source >> 8}; }
	std::uint8_t address_index() const { return static_cast<std::uint8_t>(source); }
};

// Same host only: a shared payload, which stays in a file that the sender has mapped and the
// receiver can map too (docs/decisions/0016).
struct SharedPayload {
	std::uint64_t file = 0;  // inode number
	std::uint64_t offset = 0;  // where the payload begins in the file, in bytes
	std::uint32_t descriptor = 0;  // the sender's descriptor of the file
	std::uint32_t reserved = 0;
};

enum SlotFlags : std::uint8_t { slot_solicited = 1, slot_ack_requested = 2 };
// Bits 4 to 7 of a slot's flags: the path MTU as in `enum ibv_mtu` (1: 256, ... 5: 4096), by which
// a link cuts a run into packets.
inline constexpr unsigned slot_mtu_shift = 4;

struct alignas(64) Slot {
	// Values of payload_line for a payload outside the arena: it follows the extended header in the
	// slot, or `shared` names its place.
	static constexpr std::uint32_t inline_payload = 0xffffffff;
	static constexpr std::uint32_t shared_payload = 0xfffffffe;
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
		SharedPayload shared;
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

// Opcodes that occur only on same-host links, never in a packet; diagnosis.h has a third one.
//
// A packet of another host that the kernel gave to the wrong process of this host, as several
// processes share port 4791. The payload is a ForwardedPacket (slot_ring.h) and the packet as
// received.
inline constexpr Opcode forwarded_packet{0xff};
// A management datagram for queue pair 1. The payload is an AddressPair, whose source is the
// sender, and the datagram.
inline constexpr Opcode management_datagram{0xfe};

// The number of bytes that the extended header takes in `Slot::bytes`; an inline payload follows
// the header.
constexpr std::uint32_t extension_bytes(const OpcodeFacts& f) {
	return f.reth                                      ? sizeof(Reth)
		: f.atomic_eth                                 ? sizeof(AtomicEth)
		: f.deth                                       ? sizeof(Deth)
		: f.operation == Operation::atomic_acknowledge ? 8
													   : 0;
}

// AETH syndromes (IBA 9.7.5); the top three bits are the kind.
namespace syndrome {
inline constexpr std::uint8_t ack = 0x1f;  // carries no credit count
inline constexpr std::uint8_t rnr_nak = 0x20;  // to be ORed with the 5-bit RNR timer code
inline constexpr std::uint8_t nak_sequence_error = 0x60;
inline constexpr std::uint8_t nak_invalid_request = 0x61;
inline constexpr std::uint8_t nak_remote_access = 0x62;
inline constexpr std::uint8_t nak_remote_operation = 0x63;
constexpr bool is_ack(std::uint8_t s) { return (s & 0xe0) == 0x00; }
constexpr bool is_rnr(std::uint8_t s) { return (s & 0xe0) == 0x20; }
}  // namespace syndrome

}  // namespace verbena::wire
