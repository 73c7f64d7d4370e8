// SPDX-License-Identifier: Apache-2.0
// The common types of the two measured loops (sender.h, receiver.h): the run, its result, the
// watcher, credits over UD, and checked verbs calls.
//
// Threads: values and functions without state.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/rcud/cell.h"

namespace verbena::rcud {

// One run of messages, a warm-up or a measured one.
struct Run {
	std::uint16_t number = 0;  // in every stamp, so that messages of another run are recognised
	std::uint64_t total = 0;  // messages
	std::uint64_t seed = 0;   // the pattern's (pattern.h); 0: only stamps are checked
	friend bool operator==(const Run&, const Run&) = default;
};

// The receiver's result of a run. The rate is that of the `counted` messages, which arrived within
// `counted_ns`: from the first batch that a poll returned, without that batch, to the last message.
struct Delivery {
	std::uint64_t delivered = 0, duplicated = 0, reordered = 0, corrupt = 0, stale = 0;
	std::uint64_t counted = 0, counted_ns = 0;
	std::uint64_t qps_used = 0;  // with Cell::qps: the queue pairs that messages came from

	// 10^6 messages a second.
	double mops() const {
		return counted_ns == 0 ? 0 : static_cast<double>(counted) * 1e3 / static_cast<double>(counted_ns);
	}
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
	Delivery, delivered, duplicated, reordered, corrupt, stale, counted, counted_ns, qps_used)

// A loop calls its watcher when it makes no progress, and rarely otherwise, to learn whether the
// other side has finished or given up. `silent` is true for a sender whose UD credits are missing;
// it may then get receiver_idle: the receiver runs, and has consumed everything that arrived.
enum class Watch : std::uint8_t { go_on, finished, receiver_idle, abandon };
using Watcher = std::function<Watch(bool silent)>;

inline constexpr int poll_batch = 16;
inline constexpr std::uint64_t silence_ns = 200'000'000;   // a UD run is over after this silence
inline constexpr std::uint64_t stall_ns = 10'000'000'000;  // a run without progress fails
inline constexpr std::uint32_t watch_every = 4096;         // polls between two calls of a watcher
// The latency of every 61st message is taken. 61 is a prime, so that samples do not fall in step
// with windows, lists and credits.
inline constexpr std::uint64_t sample_every = 61;
// ud_client ends its run with a datagram of this immediate; ud_server answers with its report.
inline constexpr std::uint32_t end_of_run_imm = 0x454e'4421;

// A UD credit: 4 bits of the run's number, so that a late credit of another run is recognised, and
// 28 bits of the count.
inline std::uint32_t make_credit_imm(std::uint16_t run, std::uint64_t count) {
	return std::uint32_t{run} << 28 | (static_cast<std::uint32_t>(count) & 0x0fff'ffff);
}

// The smallest count from `known` on that the immediate can stand for; `known` itself if the credit
// is of another run or older.
inline std::uint64_t credit_count_of(std::uint32_t imm, std::uint16_t run, std::uint64_t known) {
	if (imm >> 28 != (run & 0xfu)) return known;
	const std::uint32_t ahead = (imm - static_cast<std::uint32_t>(known)) & 0x0fff'ffff;
	return ahead < 0x0800'0000 ? known + ahead : known;
}

inline std::uint64_t now_ns() {
	return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Throws a Failure unless the completion is a success; `what` names the operation.
inline void check_status(const ibv_wc& completion, std::string_view what) {
	if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
		throw Failure(std::string(what) + ": " + ibv_wc_status_str(completion.status));
}

// Throws a Failure if a post returned an error; `call` names the function.
inline void check_posted(int error, const char* call) {
	if (error != 0) [[unlikely]]
		throw Failure(std::string(call) + ": " + std::strerror(error));
}

// Polls up to poll_batch completions; throws a Failure on an error.
inline int poll(ibv_cq* cq, ibv_wc* completions) {
	const int n = ibv_poll_cq(cq, poll_batch, completions);
	if (n < 0 || n > poll_batch) [[unlikely]]
		throw Failure("ibv_poll_cq failed");
	return n;
}

}  // namespace verbena::rcud
