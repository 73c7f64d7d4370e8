// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/completions.h"

#include <fmt/format.h>

#include "bench/rcud/traffic.h"

namespace verbena::rcud {
namespace {

void compare(std::string_view what, const char* field, std::uint64_t given, std::uint64_t wanted) {
	if (given != wanted)
		throw Failure(
			fmt::format("{}: a completion of the device has {} {} instead of {}", what, field, given, wanted));
}

}  // namespace

void complain_of_completion(const ibv_wc& completion, const Expected& expected, std::string_view what) {
	check_status(completion, what);
	compare(what, "opcode", completion.opcode, expected.opcode);
	compare(what, "qp_num", completion.qp_num, expected.qp_num);
	compare(what, "wr_id", completion.wr_id, expected.wr_id);
	throw Failure(fmt::format("{}: a completion of the device is not the next one", what));
}

void complain_of_length(std::string_view what, std::uint32_t given, std::uint32_t wanted) {
	compare(what, "byte_len", given, wanted);
	throw Failure(fmt::format("{}: a completion of the device has another length", what));
}

void complain_of_unposted(std::string_view what, std::uint64_t wr_id, std::uint64_t posted) {
	throw Failure(fmt::format("{}: request {} completed, but only {} have been posted", what, wr_id, posted));
}

void complain_of_idle_buffer(std::uint64_t wr_id) {
	throw Failure(
		fmt::format("receive: a completion of the device has wr_id {}, and no such receive is posted", wr_id));
}

}  // namespace verbena::rcud
