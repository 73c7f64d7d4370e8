// SPDX-License-Identifier: Apache-2.0
// The end of a measured run between ud_client and ud_server, which have no control connection: the
// client asks for the report by datagram, and the server answers by datagram.
//
// Both datagrams carry `end_of_run_imm`. The question is a stamp with the run's number and the
// number of messages posted. A question about the run 0 asks for the number of messages without a
// stamp, and is otherwise arbitrary. A question or an answer may be lost, so the client repeats the
// question and the server answers each one.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "bench/rcud/stamps.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// The message for a UD message above the MTU, which a device would not send.
inline std::string too_large_for_ud(std::uint32_t bytes, std::uint32_t mtu) {
	return fmt::format("a UD message of {} B is larger than the MTU of {} B: choose a smaller --msg", bytes, mtu);
}

// The seed with which both ends check every byte of the messages to this queue pair.
inline std::uint64_t seed_for(std::uint32_t qpn, std::uint32_t qkey) {
	std::uint64_t state = std::uint64_t{qpn} << 32 | qkey;
	return split_mix(state) | 1;
}

// The run of a question about messages without a stamp; no measured run has this number.
inline constexpr std::uint16_t plain_messages = 0;

// The report in its wire format: eight numbers of 8 bytes in host byte order. Both ends have the
// same byte order, as the stamps require too.
struct RunReport {
	std::uint64_t question;     // the stamp that was asked with
	std::uint64_t message_max;  // bytes that the server's receives hold; longer messages are lost
	std::uint64_t delivered, duplicated, reordered, corrupt, counted, counted_ns;
};
static_assert(sizeof(RunReport) == 64);

// The receiver's account of the latest run that arrives at ud_server. Messages without a valid
// stamp are counted as plain ones.
//
// Threads: one thread.
// Invariants: the first message of another run begins a new account.
class OpenRun {
public:
	// With a pattern that covers every byte, every byte of a run's messages is checked.
	explicit OpenRun(std::uint64_t message_max, Pattern pattern = Pattern())
		: message_max_(message_max), pattern_(pattern) {}

	// Counts a message that arrived at the time `now` (ns); returns true if it began a new run.
	bool accept(std::span<const std::byte> message, std::uint64_t now) {
		if (!is_of_a_run(message)) {
			++plain;
			return false;
		}
		const std::uint16_t run = run_of(load_stamp(message.data()));
		const bool begins = !run_ || *run_ != run;
		if (begins) {
			run_ = run;
			account_.begin(run, sequence_mask + 1, pattern_);
			first_at_ = now;
		}
		account_.accept(message.data(), message.size());
		last_at_ = now;
		return begins;
	}

	// The account so far. `question` goes into the report, so that the client can match it; if it
	// names another run, the counts are zero.
	RunReport report(std::uint64_t question) const {
		if (run_of(question) == plain_messages)
			return {.question = question, .message_max = message_max_, .delivered = plain};
		if (!run_ || *run_ != run_of(question)) return {.question = question, .message_max = message_max_};
		return {.question = question,
			.message_max = message_max_,
			.delivered = account_.delivered,
			.duplicated = account_.duplicated,
			.reordered = account_.reordered,
			.corrupt = account_.corrupt,
			.counted = account_.delivered > 0 ? account_.delivered - 1 : 0,
			.counted_ns = last_at_ - first_at_};
	}

	// A question about the latest run, as if all messages up to the last one seen had been posted.
	std::uint64_t question() const { return make_stamp(run_.value_or(0), account_.next()); }

	std::uint64_t plain = 0;  // messages without a valid stamp

private:
	bool is_of_a_run(std::span<const std::byte> message) const {
		if (message.size() < 16) return false;
		const std::uint64_t stamp = load_stamp(message.data());
		if (stamp == 0) return false;
		// A damaged message belongs to the open run. One without the pattern is damaged, too.
		return load_stamp(message.data() + message.size() - 8) == pattern_.tail(stamp) ||
			stamps_agree(message.data(), message.size()) ||
			(pattern_.covers_every_byte() && run_ && *run_ == run_of(stamp));
	}

	const std::uint64_t message_max_;
	const Pattern pattern_;
	std::optional<std::uint16_t> run_;
	Account account_;
	std::uint64_t first_at_ = 0, last_at_ = 0;
};

}  // namespace verbena::rcud
