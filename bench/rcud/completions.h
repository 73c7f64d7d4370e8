// SPDX-License-Identifier: Apache-2.0
// Completions that are believed only if they say what they must: the requests of a queue complete
// in the order in which they were posted, so the measured loops know the next completion of each
// kind beforehand.
//
// Threads: values and pure functions.
// Errors: a Failure that names the first difference.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace verbena::rcud {

struct Expected {
	ibv_wc_opcode opcode;
	std::uint32_t qp_num;
	std::uint64_t wr_id;
};

[[noreturn, gnu::cold]] void complain_of_completion(
	const ibv_wc& completion, const Expected& expected, std::string_view what);

[[noreturn, gnu::cold]] void complain_of_length(std::string_view what, std::uint32_t given, std::uint32_t wanted);
[[noreturn, gnu::cold]] void complain_of_unposted(std::string_view what, std::uint64_t wr_id, std::uint64_t posted);
// For receives that complete in any order.
[[noreturn, gnu::cold]] void complain_of_idle_buffer(std::uint64_t wr_id);

inline bool is_receive(const ibv_wc& completion) { return (completion.opcode & IBV_WC_RECV) != 0; }

// `what` names the operation for the message.
inline void check_completion(const ibv_wc& completion, const Expected& expected, std::string_view what) {
	const bool good = completion.status == IBV_WC_SUCCESS && completion.opcode == expected.opcode &&
		completion.qp_num == expected.qp_num && completion.wr_id == expected.wr_id;
	if (!good) [[unlikely]]
		complain_of_completion(completion, expected, what);
}

}  // namespace verbena::rcud
