// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/pcapng.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <vector>

#include "nic/trace/read/ip_packet.h"
#include "nic/wire/packet.h"
#include "nic/wire/slot_ring.h"

namespace verbena::trace {
namespace {

using wire::Slot;

// The blocks of draft-ietf-opsawg-pcapng, in the byte order of this machine.
class Blocks {
public:
	void section() {
		Body body;
		body.put<std::uint32_t>(0x1a2b3c4d);  // shows the byte order
		body.put<std::uint16_t>(1);  // version 1.0
		body.put<std::uint16_t>(0);
		body.put<std::int64_t>(-1);
		append(0x0a0d0d0a, body);
	}
	void interface(const std::string& name) {
		constexpr std::uint16_t link_type_raw_ip = 101, option_name = 2, option_resolution = 9;
		Body body;
		body.put<std::uint16_t>(link_type_raw_ip);
		body.put<std::uint16_t>(0);
		body.put<std::uint32_t>(0);  // no snapshot length
		body.option(option_name, name);
		body.option(option_resolution, std::string(1, 9));  // nanoseconds
		body.end_of_options();
		append(1, body);
	}
	void packet(std::size_t interface, std::uint64_t time, bool outbound, std::string_view bytes, std::size_t length,
		const std::string& comment) {
		constexpr std::uint16_t option_comment = 1, option_flags = 2;
		Body body;
		body.put(static_cast<std::uint32_t>(interface));
		body.put(static_cast<std::uint32_t>(time >> 32));
		body.put(static_cast<std::uint32_t>(time));
		body.put(static_cast<std::uint32_t>(bytes.size()));
		body.put(static_cast<std::uint32_t>(length));
		body.bytes(bytes);
		body.option(option_comment, comment);
		body.option(option_flags, std::string(1, outbound ? 2 : 1) + std::string(3, '\0'));
		body.end_of_options();
		append(6, body);
	}
	std::string take() { return std::move(out_); }

private:
	struct Body {
		std::string out;
		template <class Number> void put(Number number) {
			out.append(reinterpret_cast<const char*>(&number), sizeof number);
		}
		void bytes(std::string_view text) {
			out.append(text);
			out.append(-text.size() % 4, '\0');
		}
		void option(std::uint16_t code, std::string_view value) {
			put(code);
			put(static_cast<std::uint16_t>(value.size()));
			bytes(value);
		}
		void end_of_options() { put<std::uint32_t>(0); }
	};
	void append(std::uint32_t type, const Body& body) {
		const auto length = static_cast<std::uint32_t>(body.out.size() + 12);
		Body block;
		block.put(type);
		block.put(length);
		out_ += block.out + body.out;
		Body end;
		end.put(length);
		out_ += end.out;
	}

	std::string out_;
};

// A packet, or a run, and what the trace has of its payload.
struct Captured {
	Slot slot;
	std::vector<std::byte> payload;  // slot.length bytes; those after `known` are 0
	std::size_t known = 0;
	wire::AddressPair addresses{};
};

// On one host no header carries the addresses of a management datagram; its payload begins with
// them.
bool unpack_management(Captured& c) {
	if (c.known < sizeof c.addresses) return false;
	std::memcpy(&c.addresses, c.payload.data(), sizeof c.addresses);
	c.payload.erase(c.payload.begin(), c.payload.begin() + sizeof c.addresses);
	c.known -= sizeof c.addresses;
	c.slot.length -= sizeof c.addresses;
	constexpr wire::Qpn general_services{1};
	constexpr std::uint32_t general_services_key = 0x80010000;
	c.slot.set_bth(wire::Opcode::ud_send_only, general_services, c.slot.psn(), 1 << wire::slot_mtu_shift);
	c.slot.deth = {general_services_key, general_services.value << 8};
	return true;
}

std::optional<Captured> packet_of(const Event& event) {
	Packet packet;
	if (event.bytes.size() < sizeof packet) return std::nullopt;
	std::memcpy(&packet, event.bytes.data(), sizeof packet);
	Captured c;
	std::memcpy(&c.slot, packet.slot, sizeof c.slot);
	if (c.slot.length > wire::Direction::shared_payload_bytes_max) return std::nullopt;
	// A packet that came from UDP is one packet, and its slot has no path MTU.
	if (c.slot.path_mtu() < 256 || c.slot.path_mtu() > wire::payload_bytes_max) {
		constexpr std::uint32_t mtu_mask = 0xf << wire::slot_mtu_shift, mtu_4096 = 5 << wire::slot_mtu_shift;
		c.slot.psn_flags = (c.slot.psn_flags & ~mtu_mask) | mtu_4096;
	}
	c.payload.resize(c.slot.length);
	c.known = std::min({std::size_t{packet.captured}, c.payload.size(), event.bytes.size() - sizeof packet});
	std::memcpy(c.payload.data(), event.bytes.data() + sizeof packet, c.known);
	std::ranges::copy(packet.source, c.addresses.source);
	std::ranges::copy(packet.destination, c.addresses.destination);
	if (c.slot.opcode() == wire::management_datagram && !unpack_management(c)) return std::nullopt;
	if (!wire::facts(c.slot.opcode()).known) return std::nullopt;
	return c;
}

class Writer {
public:
	explicit Writer(const Trace& trace) : trace_(trace) {
		blocks_.section();
		for (const Process& process : trace.processes)
			blocks_.interface(fmt::format("{} {}", process.program, process.pid));
	}
	std::string run() {
		for (const Event& event : trace_.events) {
			const Kind kind = event.record.kind;
			if (kind == Kind::sent || kind == Kind::arrived) packet(event);
			if (kind == Kind::acknowledged || kind == Kind::acknowledgement) acknowledgement(event);
		}
		return blocks_.take();
	}

private:
	void packet(const Event& event) {
		auto captured = packet_of(event);
		if (!captured) return;
		const bool outbound = event.record.kind == Kind::sent;
		wire::AddressPair& known = addresses_[{event.process, event.record.qpn}];
		if (!wire::facts(captured->slot.opcode()).deth) {
			known = captured->addresses;
			if (!outbound) std::swap(known.source, known.destination);
		}
		write(event, *captured, outbound);
	}
	// The record has no addresses; they are those of the queue pair's packets before.
	void acknowledgement(const Event& event) {
		const Record& r = event.record;
		const bool outbound = r.kind == Kind::acknowledged;
		const auto known = addresses_.find({event.process, r.qpn});
		if (known == addresses_.end()) return;
		Captured ack;
		ack.addresses = known->second;
		if (!outbound) std::swap(ack.addresses.source, ack.addresses.destination);
		ack.slot.length = 0;
		ack.slot.lap_source = 0;
		ack.slot.set_bth(wire::Opcode::rc_acknowledge, {outbound ? r.peer : r.qpn}, {r.psn}, 1 << wire::slot_mtu_shift);
		ack.slot.set_aeth(r.status, 0);
		write(event, ack, outbound);
	}
	void write(const Event& event, const Captured& c, bool outbound) {
		const Record& r = event.record;
		const Process& process = trace_.processes[event.process];
		wire::Flow flow;
		std::ranges::copy(c.addresses.source, flow.source.begin());
		std::ranges::copy(c.addresses.destination, flow.destination.begin());
		const std::uint32_t sender = outbound ? r.qpn : r.peer;
		flow.source_port = static_cast<std::uint16_t>(0xc000 | (sender & 0x3fff));
		const std::string comment =
			fmt::format("{} {} ({}): QP 0x{:x} {} QP 0x{:x}, {}", outbound ? "sent by" : "received by", process.program,
				process.pid, r.qpn, outbound ? "->" : "<-", r.peer, r.flags & flag_local ? "shared memory" : "UDP");
		for (std::uint32_t i = 0; i < wire::packet_count(c.slot); ++i) {
			std::array<std::byte, wire::packet_bytes_max> bytes;
			const std::size_t size = wire::write_packet(c.slot, i, c.payload.data(), flow, 0, bytes);
			std::string packet = ip_udp_headers(flow, std::span(bytes).first(size));
			const std::size_t headers = packet.size();
			packet.append(reinterpret_cast<const char*>(bytes.data()), size);
			const wire::Piece piece = wire::piece_of(c.slot, i);
			std::size_t kept = packet.size();
			if (piece.payload_offset + piece.payload_bytes > c.known)
				kept = headers + piece.header_bytes +
					(c.known > piece.payload_offset ? c.known - piece.payload_offset : 0);
			blocks_.packet(event.process, r.time + process.epoch, outbound, std::string_view(packet).substr(0, kept),
				packet.size(), comment);
		}
	}

	const Trace& trace_;
	Blocks blocks_;
	// By process and queue pair: the addresses of what it sends.
	std::map<std::pair<std::size_t, std::uint32_t>, wire::AddressPair> addresses_;
};

}  // namespace

std::string render_pcapng(const Trace& trace) { return Writer(trace).run(); }

}  // namespace verbena::trace
