// How ud_client and ud_server end a measured run without a control connection: the client asks for the account by
// datagram, the server answers by datagram. Both carry `end_of_run_imm`; the question is the run's stamp (its number,
// and how many were posted). A question or an answer may be lost: the client asks again, the server answers each time.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "bench/rcud/stamps.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// The answer as it travels: eight numbers of 8 bytes, in the hosts' byte order (both ends are of one kind, as for the
// stamps).
struct RunReport {
	std::uint64_t question;
	std::uint64_t message_max;  // bytes of payload that the server's receives hold: larger messages are dropped there
	std::uint64_t delivered, duplicated, reordered, corrupt, counted, counted_ns;
};
static_assert(sizeof(RunReport) == 64);

// What ud_server keeps of the run that is coming in. Plain messages (whose stamps do not agree, or which are too short)
// only count.
class OpenRun {
public:
	explicit OpenRun(std::uint64_t message_max) : message_max_(message_max) {}

	// A message; true if it began a new run.
	bool accept(std::span<const std::byte> message, std::uint64_t now) {
		if (message.size() < 16 || !stamps_agree(message.data(), message.size()) || load_stamp(message.data()) == 0) {
			++plain;
			return false;
		}
		const std::uint16_t run = run_of(load_stamp(message.data()));
		const bool begins = !run_ || *run_ != run;
		if (begins) {
			run_ = run;
			account_.begin(run);
			first_at_ = now;
		}
		account_.accept(message.data(), message.size());
		last_at_ = now;
		return begins;
	}

	// The account so far; `question` tells the client that the answer is to what it asked. Empty of another run than
	// the question's.
	RunReport report(std::uint64_t question) const {
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

	std::uint64_t question() const { return make_stamp(run_.value_or(0), account_.next()); }

	std::uint64_t plain = 0;

private:
	const std::uint64_t message_max_;
	std::optional<std::uint16_t> run_;
	Account account_;
	std::uint64_t first_at_ = 0, last_at_ = 0;
};

}  // namespace verbena::rcud
