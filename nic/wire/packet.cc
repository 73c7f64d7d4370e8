// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/packet.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "nic/wire/aeth.h"
#include "nic/wire/atomic_eth.h"
#include "nic/wire/bth.h"
#include "nic/wire/deth.h"
#include "nic/wire/ieth.h"
#include "nic/wire/imm_dt.h"
#include "nic/wire/opcode.h"
#include "nic/wire/reth.h"

namespace verbena::wire {
namespace {

constexpr bool carries_payload(const OpcodeFacts& f) {
	return f.operation == Operation::send || f.operation == Operation::write || f.operation == Operation::read_response;
}

constexpr bool may_be_cut(const OpcodeFacts& f) { return carries_payload(f) && f.transport != Transport::ud; }

// A congestion notification has this many reserved bytes after its BTH (IBA Annex A17).
constexpr std::size_t notification_reserved_size = 16;

// Returns the next `size` bytes and moves `at` past them.
template <std::size_t size, class Byte> std::span<Byte, size> next(Byte*& at) {
	const std::span<Byte, size> header(at, size);
	at += size;
	return header;
}

// The opcode of a packet that does not end its message (FIRST or MIDDLE), and of one that does
// (ONLY or LAST), for the operation of a run.
constexpr Opcode without_end(const OpcodeFacts& f, bool first) {
	const auto base = static_cast<std::uint8_t>(f.transport);
	const std::uint8_t at = f.operation == Operation::send ? 0x00 : f.operation == Operation::write ? 0x06 : 0x0d;
	return Opcode(base | (at + (first ? 0 : 1)));
}

constexpr Opcode with_end(const OpcodeFacts& f, bool first) {
	const auto base = static_cast<std::uint8_t>(f.transport);
	if (f.invalidate) return first ? Opcode::rc_send_only_invalidate : Opcode::rc_send_last_invalidate;
	if (f.operation == Operation::read_response)
		return first ? Opcode::rc_read_response_only : Opcode::rc_read_response_last;
	const std::uint8_t at = f.operation == Operation::send ? 0x02 : 0x08;
	return Opcode(base | (at + (first ? 2 : 0) + (f.immediate ? 1 : 0)));
}

static_assert(without_end(facts(Opcode::rc_send_only), true) == Opcode::rc_send_first);
static_assert(without_end(facts(Opcode::uc_write_last_imm), false) == Opcode::uc_write_middle);
static_assert(without_end(facts(Opcode::rc_read_response_last), false) == Opcode::rc_read_response_middle);
static_assert(with_end(facts(Opcode::uc_write_only_imm), false) == Opcode::uc_write_last_imm);
static_assert(with_end(facts(Opcode::rc_send_last_imm), false) == Opcode::rc_send_last_imm);
static_assert(with_end(facts(Opcode::uc_send_only), true) == Opcode::uc_send_only);
static_assert([] {
	for (int value = 0; value < 256; ++value)
		if (facts(Opcode(value)).header_bytes > header_bytes_max) return false;
	return true;
}());

}  // namespace

std::uint32_t packet_count(const Slot& slot) {
	const std::uint32_t mtu = slot.path_mtu();
	if (!may_be_cut(facts(slot.opcode())) || mtu < 256 || slot.length <= mtu) return 1;
	return (slot.length + mtu - 1) / mtu;
}

Piece piece_of(const Slot& slot, std::uint32_t index) {
	const OpcodeFacts& run = facts(slot.opcode());
	const std::uint32_t packets = packet_count(slot);
	check(index < packets, "the piece is one of the run");
	const std::uint32_t offset = packets == 1 ? 0 : index * slot.path_mtu();
	const std::uint32_t bytes = packets == 1 ? slot.length : std::min(slot.path_mtu(), slot.length - offset);
	check(bytes <= payload_bytes_max, "a packet's payload is at most the largest path MTU");

	const bool last_of_run = index + 1 == packets;
	const bool first = run.first && index == 0, last = run.last && last_of_run;
	const Opcode opcode = packets == 1 ? slot.opcode() : last ? with_end(run, first) : without_end(run, first);
	return {
		.opcode = opcode,
		.psn = {(slot.psn().value + index) & 0xffffff},
		.payload_offset = offset,
		.payload_bytes = static_cast<std::uint16_t>(bytes),
		.header_bytes = facts(opcode).header_bytes,
		.pad_count = static_cast<std::uint8_t>(-bytes & 3),
		.last_of_run = last_of_run,
	};
}

std::size_t write_header(const Slot& slot, const Piece& piece, std::span<std::byte, header_bytes_max> to) {
	const OpcodeFacts& f = facts(piece.opcode);
	Bth{
		.opcode = piece.opcode,
		.solicited_event = piece.last_of_run && slot.solicited(),
		.pad_count = piece.pad_count,
		.destination = slot.destination(),
		.ack_requested = piece.last_of_run && slot.ack_requested(),
		.psn = piece.psn,
	}
		.write(to.first<Bth::size>());
	std::byte* at = to.data() + Bth::size;
	if (f.deth) write_deth(next<deth_size>(at), slot.deth);
	if (f.reth) write_reth(next<reth_size>(at), slot.reth);
	if (f.atomic_eth) write_atomic_eth(next<atomic_eth_size>(at), slot.atomic);
	if (f.aeth) write_aeth(next<aeth_size>(at), slot.word);
	if (f.operation == Operation::atomic_acknowledge)
		write_atomic_ack_eth(next<atomic_ack_eth_size>(at), slot.atomic_result);
	if (f.immediate) write_imm_dt(next<imm_dt_size>(at), slot.word);
	if (f.invalidate) write_ieth(next<ieth_size>(at), {slot.word});
	return static_cast<std::size_t>(at - to.data());
}

std::size_t write_trailer(const IcrcPrefix& prefix, std::uint16_t ip_id, const IcrcInput& packet,
	std::span<std::byte, trailer_bytes_max> to) {
	std::memset(to.data(), 0, packet.pad_count);
	store_be32(&to[packet.pad_count], std::byteswap(icrc(prefix, {.id = ip_id}, packet)));
	return packet.pad_count + icrc_size;
}

std::size_t write_packet(const Slot& slot, std::uint32_t index, const std::byte* payload, const Flow& flow,
	std::uint16_t ip_id, std::span<std::byte> to) {
	const Piece piece = piece_of(slot, index);
	check(to.size() >= piece.wire_bytes(), "the packet fits the buffer");
	std::byte header[header_bytes_max], trailer[trailer_bytes_max];
	const std::size_t header_bytes = write_header(slot, piece, header);
	std::memcpy(to.data(), header, header_bytes);
	if (piece.payload_bytes != 0) std::memcpy(&to[header_bytes], payload + piece.payload_offset, piece.payload_bytes);
	const IcrcInput input{.headers = to.first(header_bytes),
		.payload = to.subspan(header_bytes, piece.payload_bytes),
		.pad_count = piece.pad_count};
	const std::size_t trailer_bytes = write_trailer(IcrcPrefix(flow, piece.wire_bytes()), ip_id, input, trailer);
	std::memcpy(&to[header_bytes + piece.payload_bytes], trailer, trailer_bytes);
	return piece.wire_bytes();
}

std::string_view name(DropReason reason) {
	switch (reason) {
		case DropReason::too_short: return "too_short";
		case DropReason::too_long: return "too_long";
		case DropReason::wrong_version: return "wrong_version";
		case DropReason::unknown_opcode: return "unknown_opcode";
		case DropReason::foreign_p_key: return "foreign_p_key";
		case DropReason::wrong_length: return "wrong_length";
		case DropReason::wrong_pad: return "wrong_pad";
		case DropReason::wrong_icrc: return "wrong_icrc";
		case DropReason::congestion_notification: return "congestion_notification";
		case DropReason::count: break;
	}
	return "unknown";
}

std::expected<Parsed, DropReason> parse(const Flow& flow, std::span<const std::byte> datagram, IpFields likely) {
	return parse(IcrcPrefix(flow, datagram.size()), datagram, likely);
}

std::expected<Parsed, DropReason> parse(
	const IcrcPrefix& prefix, std::span<const std::byte> datagram, IpFields likely) {
	const auto drop = [](DropReason reason) { return std::unexpected(reason); };
	if (datagram.size() < Bth::size + icrc_size) return drop(DropReason::too_short);
	if (datagram.size() > packet_bytes_max) return drop(DropReason::too_long);
	const BthView view = *BthView::over(datagram);
	if (view.version() != 0) return drop(DropReason::wrong_version);
	const Bth bth = view.read();
	const OpcodeFacts& f = facts(bth.opcode);
	if (bth.opcode == congestion_notification && datagram.size() == Bth::size + notification_reserved_size + icrc_size)
		return drop(matching_ip_fields(prefix, datagram, likely) ? DropReason::congestion_notification
																 : DropReason::wrong_icrc);
	if (!f.known) return drop(DropReason::unknown_opcode);
	if (datagram.size() < std::size_t{f.header_bytes} + icrc_size + bth.pad_count) return drop(DropReason::too_short);
	const std::size_t payload_bytes = datagram.size() - f.header_bytes - icrc_size - bth.pad_count;
	if (payload_bytes > payload_bytes_max) return drop(DropReason::too_long);
	if (payload_bytes != 0 && !carries_payload(f)) return drop(DropReason::wrong_length);
	// Every packet but the last of a message fills the path MTU, a multiple of four, and so has no
	// pad.
	if (datagram.size() % 4 != 0 || (bth.pad_count != 0 && (payload_bytes == 0 || !f.last)))
		return drop(DropReason::wrong_pad);
	const std::optional<IpFields> ip = matching_ip_fields(prefix, datagram, likely);
	if (!ip) return drop(DropReason::wrong_icrc);
	// Checked after the ICRC, so that a damaged packet does not count as a foreign one. The top bit
	// only distinguishes full from limited members.
	if ((bth.p_key & 0x7fff) != (Bth::default_p_key & 0x7fff)) return drop(DropReason::foreign_p_key);

	Parsed parsed{.slot = {}, .payload = datagram.subspan(f.header_bytes, payload_bytes), .ip = *ip};
	Slot& slot = parsed.slot;
	slot.lap_source = 0;
	slot.payload_line = 0;
	slot.word = 0;
	slot.length = static_cast<std::uint32_t>(payload_bytes);
	slot.set_bth(bth.opcode, bth.destination, bth.psn,
		static_cast<std::uint8_t>(
			(bth.solicited_event ? slot_solicited : 0) | (bth.ack_requested ? slot_ack_requested : 0)));
	const std::byte* at = datagram.data() + Bth::size;
	if (f.deth) {
		slot.deth = read_deth(next<deth_size>(at));
		slot.lap_source = slot.deth.source_qp().value;
	}
	if (f.reth) slot.reth = read_reth(next<reth_size>(at));
	if (f.atomic_eth) slot.atomic = read_atomic_eth(next<atomic_eth_size>(at));
	if (f.aeth) slot.word = read_aeth(next<aeth_size>(at));
	if (f.operation == Operation::atomic_acknowledge)
		slot.atomic_result = read_atomic_ack_eth(next<atomic_ack_eth_size>(at));
	if (f.immediate) slot.word = read_imm_dt(next<imm_dt_size>(at));
	if (f.invalidate) slot.word = read_ieth(next<ieth_size>(at)).value;
	return parsed;
}

}  // namespace verbena::wire
