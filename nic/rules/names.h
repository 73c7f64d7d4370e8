// SPDX-License-Identifier: Apache-2.0
// The names of things in sentences.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "nic/queues/work_request.h"
#include "nic/rules/text.h"

namespace verbena::rules {

inline const char* name_of(queues::SendOpcode opcode) {
	constexpr const char* names[] = {"RDMA WRITE", "RDMA WRITE with immediate", "SEND", "SEND with immediate",
		"RDMA READ", "compare and swap", "fetch and add", "local invalidate", "bind", "SEND with invalidate"};
	const auto number = static_cast<std::size_t>(opcode);
	return number < std::size(names) ? names[number] : "request";
}

inline std::string request_name(queues::SendOpcode opcode, std::uint64_t wr_id) {
	return text("the %s with wr_id %llu", name_of(opcode), static_cast<unsigned long long>(wr_id));
}

inline std::string range_name(std::uint64_t address, std::uint64_t length) {
	return text("[0x%llx, +%llu)", static_cast<unsigned long long>(address), static_cast<unsigned long long>(length));
}

}  // namespace verbena::rules
