// SPDX-License-Identifier: Apache-2.0
// Names of the numbers in a trace: those of the verbs' manual pages, and of the opcodes of packets
// as tshark(1) prints them.
//
// Threads: any.
// Errors: an unknown number gives "?".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::trace {

std::string_view work_request_name(std::uint8_t ibv_wr_opcode);
std::string_view completion_name(std::uint8_t ibv_wc_opcode);
std::string_view status_name(std::uint8_t ibv_wc_status);  // "IBV_WC_SUCCESS"
// "RC SEND_ONLY". A run of packets is one record, with the opcode that its message has as one
// packet: "RC SEND_FIRST to LAST".
std::string packet_name(std::uint8_t opcode, std::uint32_t packets = 1);
// "ACK", "RNR NAK, pause 10 us", "NAK: remote access error".
std::string syndrome_name(std::uint8_t syndrome);
std::string errno_name(std::uint32_t error);  // "EINVAL"

}  // namespace verbena::trace
