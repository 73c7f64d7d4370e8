// SPDX-License-Identifier: Apache-2.0
// BTH opcodes and the facts that follow from each (IBA 9.2).
//
// An opcode combines transport, operation and position in the message. `facts(opcode)` gives
// everything else, so that no other file compares opcode numbers. A value with `facts(opcode).known
// == false` must be dropped.
#pragma once

#include <array>
#include <cstdint>

namespace verbena::wire {

enum class Transport : std::uint8_t { rc = 0x00, uc = 0x20, ud = 0x60 };

enum class Opcode : std::uint8_t {
	rc_send_first = 0x00,
	rc_send_middle = 0x01,
	rc_send_last = 0x02,
	rc_send_last_imm = 0x03,
	rc_send_only = 0x04,
	rc_send_only_imm = 0x05,
	rc_write_first = 0x06,
	rc_write_middle = 0x07,
	rc_write_last = 0x08,
	rc_write_last_imm = 0x09,
	rc_write_only = 0x0a,
	rc_write_only_imm = 0x0b,
	rc_read_request = 0x0c,
	rc_read_response_first = 0x0d,
	rc_read_response_middle = 0x0e,
	rc_read_response_last = 0x0f,
	rc_read_response_only = 0x10,
	rc_acknowledge = 0x11,
	rc_atomic_acknowledge = 0x12,
	rc_compare_swap = 0x13,
	rc_fetch_add = 0x14,
	rc_send_last_invalidate = 0x16,
	rc_send_only_invalidate = 0x17,

	uc_send_first = 0x20,
	uc_send_middle = 0x21,
	uc_send_last = 0x22,
	uc_send_last_imm = 0x23,
	uc_send_only = 0x24,
	uc_send_only_imm = 0x25,
	uc_write_first = 0x26,
	uc_write_middle = 0x27,
	uc_write_last = 0x28,
	uc_write_last_imm = 0x29,
	uc_write_only = 0x2a,
	uc_write_only_imm = 0x2b,

	ud_send_only = 0x64,
	ud_send_only_imm = 0x65,
};

// An adapter sends a congestion notification (CNP) to a sender whose packets a switch has marked.
// It belongs to no transport and no message, so it has no facts, and only `parse` (packet.h) knows
// it.
inline constexpr Opcode congestion_notification{0x81};

enum class Operation : std::uint8_t {
	send,
	write,
	read_request,
	read_response,
	acknowledge,
	atomic_acknowledge,
	compare_swap,
	fetch_add
};

struct OpcodeFacts {
	bool known = false;
	Transport transport = Transport::rc;
	Operation operation = Operation::send;
	bool first = false;  // begins a message: FIRST or ONLY
	bool last = false;  // ends a message: LAST or ONLY
	bool immediate = false;  // from here on: which extended headers the packet has
	bool invalidate = false;
	bool reth = false;
	bool atomic_eth = false;
	bool aeth = false;
	bool deth = false;
	bool response = false;  // sent by a responder
	std::uint8_t header_bytes = 12;  // BTH and all extended headers
};

namespace detail {

// The facts by arithmetic on the three parts of an opcode, once, for the table below.
constexpr OpcodeFacts compute(std::uint8_t value) {
	OpcodeFacts f;
	const std::uint8_t base = value & 0xe0, op = value & 0x1f;
	if (base == 0x00) f.transport = Transport::rc;
	else if (base == 0x20 && op <= 0x0b) f.transport = Transport::uc;
	else if (base == 0x60 && (op == 0x04 || op == 0x05)) f.transport = Transport::ud;
	else return f;
	f.known = op <= 0x14 || op == 0x16 || op == 0x17;
	if (!f.known) return f;

	if (op <= 0x05 || op >= 0x16) {
		f.operation = Operation::send;
		f.first = op == 0x00 || op == 0x04 || op == 0x05 || op == 0x17;
		f.last = op >= 0x02;
		f.immediate = op == 0x03 || op == 0x05;
		f.invalidate = op >= 0x16;
	} else if (op <= 0x0b) {
		f.operation = Operation::write;
		f.first = op == 0x06 || op >= 0x0a;
		f.last = op >= 0x08;
		f.immediate = op == 0x09 || op == 0x0b;
		f.reth = f.first;
	} else if (op == 0x0c) {
		f.operation = Operation::read_request;
		f.first = f.last = f.reth = true;
	} else if (op <= 0x10) {
		f.operation = Operation::read_response;
		f.first = op == 0x0d || op == 0x10;
		f.last = op == 0x0f || op == 0x10;
		f.aeth = op != 0x0e;
		f.response = true;
	} else if (op <= 0x12) {
		f.operation = op == 0x11 ? Operation::acknowledge : Operation::atomic_acknowledge;
		f.first = f.last = f.aeth = f.response = true;
	} else {
		f.operation = op == 0x13 ? Operation::compare_swap : Operation::fetch_add;
		f.first = f.last = f.atomic_eth = true;
	}
	f.deth = f.transport == Transport::ud;
	f.header_bytes = static_cast<std::uint8_t>(12 + 16 * f.reth + 28 * f.atomic_eth + 4 * f.aeth + 8 * (op == 0x12) +
		8 * f.deth + 4 * f.immediate + 4 * f.invalidate);
	return f;
}

inline constexpr auto opcode_table = [] {
	std::array<OpcodeFacts, 256> table{};
	for (unsigned i = 0; i < 256; ++i) table[i] = compute(static_cast<std::uint8_t>(i));
	return table;
}();

}  // namespace detail

constexpr const OpcodeFacts& facts(Opcode opcode) { return detail::opcode_table[static_cast<std::uint8_t>(opcode)]; }

}  // namespace verbena::wire
