// What the measured loops share: the run they are asked for, what they answer, and how they learn of the world outside.
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

struct Run {
	std::uint16_t number = 0;  // in every stamp, so that leftovers of another run show
	std::uint64_t total = 0;  // messages
	friend bool operator==(const Run&, const Run&) = default;
};

// The receiver's account of a run. `counted` messages arrived in `counted_ns`: from the first batch that a poll gave,
// that batch excluded, to the last message.
struct Delivery {
	std::uint64_t delivered = 0, duplicated = 0, reordered = 0, corrupt = 0, stale = 0;
	std::uint64_t counted = 0, counted_ns = 0;

	double mops() const {
		return counted_ns == 0 ? 0 : static_cast<double>(counted) * 1e3 / static_cast<double>(counted_ns);
	}
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Delivery, delivered, duplicated, reordered, corrupt, stale, counted, counted_ns)

// Asked by a loop that makes no progress (and now and then by one that does): has the other side finished, or given up?
// receiver_idle is the answer to a `silent` sender: the receiver runs, and has consumed all that came.
enum class Watch : std::uint8_t { go_on, finished, receiver_idle, abandon };
using Watcher = std::function<Watch(bool silent)>;

inline constexpr int poll_batch = 16;
inline constexpr std::uint64_t silence_ns = 200'000'000;  // a UD run is over when so long nothing came
inline constexpr std::uint64_t stall_ns = 10'000'000'000;  // anything else is stuck
inline constexpr std::uint32_t watch_every = 4096;  // polls that found nothing
// Every 61st message's latency is taken: a prime, so that samples do not fall in step with windows, lists and credits.
inline constexpr std::uint64_t sample_every = 61;
// ud_client ends its run with a datagram of this immediate; ud_server answers with its account.
inline constexpr std::uint32_t end_of_run_imm = 0x454e'4421;

// A UD credit: 4 bits of the run's number, so that a leftover shows, and 28 of the count.
inline std::uint32_t make_credit_imm(std::uint16_t run, std::uint64_t count) {
	return std::uint32_t{run} << 28 | (static_cast<std::uint32_t>(count) & 0x0fff'ffff);
}

// The count nearest to `known` from above that the immediate can mean; `known` if it is of another run or no news.
inline std::uint64_t read_credit_imm(std::uint32_t imm, std::uint16_t run, std::uint64_t known) {
	if (imm >> 28 != (run & 0xfu)) return known;
	const std::uint32_t ahead = (imm - static_cast<std::uint32_t>(known)) & 0x0fff'ffff;
	return ahead < 0x0800'0000 ? known + ahead : known;
}

inline std::uint64_t now_ns() {
	return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline void check_status(const ibv_wc& completion, std::string_view what) {
	if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
		throw Failure(std::string(what) + ": " + ibv_wc_status_str(completion.status));
}

inline void check_posted(int error, const char* call) {
	if (error != 0) [[unlikely]]
		throw Failure(std::string(call) + ": " + std::strerror(error));
}

inline int poll(ibv_cq* cq, ibv_wc* completions) {
	const int n = ibv_poll_cq(cq, poll_batch, completions);
	if (n < 0) [[unlikely]]
		throw Failure("ibv_poll_cq failed");
	return n;
}

}  // namespace verbena::rcud
