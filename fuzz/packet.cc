// SPDX-License-Identifier: Apache-2.0
// Fuzzes wire::parse, and the conversion of slots to packets and back.
//
// The first byte of the input chooses the case: bytes as they are; bytes with the right ICRC
// appended, because random bytes would hardly ever pass that check; or a slot that the transport
// could have written, cut into packets, each of which must parse back to its piece of the slot. The
// payload is read as a message about room too.
#include <array>
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "nic/wire/packet.h"
#include "nic/wire/room.h"
#include "nic/wire/slot_ring.h"

namespace verbena::fuzz {
namespace {

using namespace wire;

Flow take_flow(Input& input) {
	Flow flow;
	if (input.flag()) flow.source[10] = flow.source[11] = flow.destination[10] = flow.destination[11] = 0xff;
	else flow.source[0] = flow.destination[0] = 0xfd;
	flow.source[15] = input.byte();
	flow.destination[15] = input.byte();
	flow.source_port = input.take<std::uint16_t>();
	return flow;
}

bool same_headers(const Slot& a, const Slot& b) {
	return a.length == b.length && a.destination_opcode == b.destination_opcode && a.psn_flags == b.psn_flags &&
		a.word == b.word && std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

void parse_bytes(Input& input, const Flow& flow, bool with_icrc) {
	const std::uint16_t ip_id = input.take<std::uint16_t>();
	const std::span<const std::byte> bytes = input.rest();
	// A buffer of exactly this size, so that the sanitizer notices a read past the end.
	std::vector<std::byte> datagram(bytes.begin(), bytes.end());
	if (with_icrc && datagram.size() >= 12) {
		const std::size_t header_bytes = std::min<std::size_t>(datagram.size(), header_bytes_max);
		const std::uint32_t crc = icrc(flow, {.id = ip_id},
			{.headers = std::span(datagram).first(header_bytes), .payload = std::span(datagram).subspan(header_bytes)});
		for (int shift = 0; shift < 32; shift += 8) datagram.push_back(static_cast<std::byte>(crc >> shift));
	}
	const auto parsed = parse(flow, datagram, {.id = ip_id});
	if (!parsed) {
		check(parsed.error() < DropReason::count && name(parsed.error()) != "unknown", "a refusal has a reason");
		return;
	}
	check(parsed->payload.size() == parsed->slot.length && parsed->payload.size() <= payload_bytes_max,
		"the payload's length is the slot's");
	check(parsed->payload.empty() ||
			(parsed->payload.data() >= datagram.data() &&
				&parsed->payload.back() < datagram.data() + datagram.size() - icrc_size),
		"the payload lies in the datagram");
	if (const auto message = read_room_message(parsed->payload))
		check(read_room_message(write_room_message(*message)) == message, "a message about room is written as it was");

	// Parsing discards reserved bits and the P_Key's top bit. All other fields must survive.
	std::array<std::byte, packet_bytes_max> again;
	const std::size_t size = write_packet(parsed->slot, 0, parsed->payload.data(), flow, ip_id, again);
	check(size == datagram.size(), "a packet that was parsed is written as long as it was");
	const auto twice = parse(flow, std::span(again).first(size), {.id = ip_id});
	check(twice.has_value(), "a packet that was written is parsed");
	check(same_headers(parsed->slot, twice->slot) && std::ranges::equal(parsed->payload, twice->payload),
		"a packet that was written and parsed again is the same");
}

// Makes a slot of a shape that the transport writes, cuts it into packets and parses them.
void cut_slot(Input& input, const Flow& flow) {
	const Opcode opcode{input.byte()};
	const OpcodeFacts& f = facts(opcode);
	if (!f.known) return;
	const bool carries =
		f.operation == Operation::send || f.operation == Operation::write || f.operation == Operation::read_response;
	const unsigned mtu_code = 1 + input.below(5);
	const std::uint32_t mtu = 128u << mtu_code;
	std::uint32_t length = carries ? input.take<std::uint16_t>() % (Direction::run_bytes_max + 1) : 0;
	if (f.transport == Transport::ud) length = std::min(length, mtu);
	if (carries && !f.last) length = std::max(length / mtu, 1u) * mtu;
	if (carries && f.last && !f.first) length = std::max(length, 1u);
	const std::uint32_t psn = input.take<std::uint32_t>() & 0xffffff;
	const std::uint16_t ip_id = input.take<std::uint16_t>();
	const auto flags = static_cast<std::uint8_t>(input.below(4) | mtu_code << slot_mtu_shift);

	Slot slot;
	slot.set_bth(opcode, {input.take<std::uint32_t>() & 0xffffff}, {psn}, flags);
	slot.length = length;
	slot.word = input.take<std::uint32_t>();
	std::ranges::copy(input.bytes(extension_bytes(f)), slot.bytes);
	std::vector<std::byte> payload(length);
	std::ranges::copy(input.bytes(length), payload.begin());

	const std::uint32_t packets = packet_count(slot);
	std::uint32_t offset = 0;
	for (std::uint32_t i = 0; i < packets; ++i) {
		const Piece piece = piece_of(slot, i);
		check(piece.payload_offset == offset && piece.payload_bytes <= mtu,
			"the pieces follow each other and fit the path MTU");
		std::vector<std::byte> packet(piece.wire_bytes());
		check(write_packet(slot, i, payload.data(), flow, ip_id, packet) == packet.size(),
			"a packet is as long as its piece says");
		const auto parsed = parse(flow, packet, {});
		check(parsed.has_value(), "a packet that we write is one that we parse");
		check(!flow.is_ipv4() || parsed->ip.id == ip_id, "the IP identification is found");
		check(parsed->slot.opcode() == piece.opcode && parsed->slot.psn().value == ((psn + i) & 0xffffff) &&
				parsed->slot.destination() == slot.destination(),
			"the BTH is that of the slot's piece");
		check(std::ranges::equal(parsed->payload, std::span(payload).subspan(offset, piece.payload_bytes)),
			"the payload is that of the slot's piece");
		const OpcodeFacts& g = facts(piece.opcode);
		check((g.first && f.first) == (i == 0 && f.first) && (g.last && f.last) == (i + 1 == packets && f.last),
			"the run begins and ends where the slot does");
		if (g.immediate || g.invalidate || g.aeth)
			check(parsed->slot.word == slot.word, "the immediate, key or AETH is the slot's");
		// The low 8 bits of a DETH's source belong to the link, and an AtomicETH has a reserved
		// word, so these headers are compared field by field.
		if (g.reth)
			check(parsed->slot.reth.address == slot.reth.address && parsed->slot.reth.rkey == slot.reth.rkey &&
					parsed->slot.reth.dma_length == slot.reth.dma_length,
				"the RETH is the slot's");
		if (g.atomic_eth)
			check(parsed->slot.atomic.swap_or_add == slot.atomic.swap_or_add &&
					parsed->slot.atomic.compare == slot.atomic.compare,
				"the AtomicETH is the slot's");
		if (g.deth)
			check(parsed->slot.deth.q_key == slot.deth.q_key && parsed->slot.source() == slot.deth.source_qp(),
				"the DETH is the slot's");
		offset += piece.payload_bytes;
	}
	check(offset == length, "nothing of the payload is missing");
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	using namespace verbena::fuzz;
	Input input(data, size);
	const std::uint32_t what = input.below(3);
	const auto flow = take_flow(input);
	if (what == 2) cut_slot(input, flow);
	else parse_bytes(input, flow, what == 1);
	return 0;
}
