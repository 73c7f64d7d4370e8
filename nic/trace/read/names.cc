// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/names.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <iterator>

#include "nic/wire/diagnosis.h"
#include "nic/wire/opcode.h"
#include "nic/wire/slot.h"

namespace verbena::trace {
namespace {

constexpr std::string_view unknown = "?";

template <std::size_t count> std::string_view at(const std::string_view (&names)[count], std::size_t index) {
	return index < count ? names[index] : unknown;
}

constexpr std::string_view work_requests[] = {"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ",
	"ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV"};
constexpr std::string_view sends[] = {
	"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV"};
constexpr std::string_view statuses[] = {"IBV_WC_SUCCESS", "IBV_WC_LOC_LEN_ERR", "IBV_WC_LOC_QP_OP_ERR",
	"IBV_WC_LOC_EEC_OP_ERR", "IBV_WC_LOC_PROT_ERR", "IBV_WC_WR_FLUSH_ERR", "IBV_WC_MW_BIND_ERR", "IBV_WC_BAD_RESP_ERR",
	"IBV_WC_LOC_ACCESS_ERR", "IBV_WC_REM_INV_REQ_ERR", "IBV_WC_REM_ACCESS_ERR", "IBV_WC_REM_OP_ERR",
	"IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR"};
// By the low five bits of the opcode (IBA 9.2).
constexpr std::string_view all_packets[] = {"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY",
	"SEND_ONLY_IMM", "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM", "WRITE_ONLY", "WRITE_ONLY_IMM",
	"READ_REQUEST", "READ_RESPONSE_FIRST", "READ_RESPONSE_MIDDLE", "READ_RESPONSE_LAST", "READ_RESPONSE_ONLY",
	"ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "FETCH_ADD", "?", "SEND_LAST_INV", "SEND_ONLY_INV"};
constexpr std::string_view refusals[] = {
	"sequence error", "invalid request", "remote access error", "remote operation error"};

}  // namespace

std::string_view work_request_name(std::uint8_t opcode) { return at(work_requests, opcode); }

std::string_view completion_name(std::uint8_t opcode) {
	constexpr std::uint8_t receive = 128;
	if (opcode >= receive) return opcode == receive ? "RECV" : "RECV_RDMA_WITH_IMM";
	return at(sends, opcode);
}

std::string_view status_name(std::uint8_t status) { return at(statuses, status); }

std::string packet_name(std::uint8_t opcode, std::uint32_t packets) {
	if (wire::Opcode(opcode) == wire::management_datagram) return "MAD";
	if (wire::Opcode(opcode) == wire::diagnosis_opcode) return "DIAGNOSIS";
	if (wire::Opcode(opcode) == wire::forwarded_packet) return "FORWARDED";
	const wire::OpcodeFacts& facts = wire::facts(wire::Opcode(opcode));
	if (!facts.known) return fmt::format("opcode 0x{:02x}", opcode);
	const char* const service = facts.transport == wire::Transport::rc ? "RC"
		: facts.transport == wire::Transport::uc                       ? "UC"
																	   : "UD";
	std::string name(at(all_packets, opcode & 0x1f));
	constexpr std::string_view only = "_ONLY";
	if (const std::size_t place = name.find(only); packets > 1 && place != name.npos)
		name.replace(place, only.size(), "_FIRST to LAST");
	return fmt::format("{} {}", service, name);
}

std::string syndrome_name(std::uint8_t syndrome) {
	if (wire::syndrome::is_ack(syndrome)) return "ACK";
	if (wire::syndrome::is_rnr(syndrome)) return fmt::format("RNR NAK, timer {}", syndrome & 0x1f);
	constexpr std::uint8_t not_receiving = 0x7f;
	if (syndrome == not_receiving) return "NAK: no queue pair there can receive";
	return fmt::format("NAK: {}", at(refusals, syndrome & 0x1f));
}

std::string errno_name(std::uint32_t error) {
	const char* const name = strerrorname_np(static_cast<int>(error));
	return name ? name : fmt::format("errno {}", error);
}

}  // namespace verbena::trace
