// SPDX-License-Identifier: Apache-2.0
// Decides how long acknowledgements to other hosts wait, so that they leave by the same system call
// as the program's next request (docs/decisions/0034).
//
// A program that has received a message by polling often posts its answer at once. So the
// acknowledgements of a poll that found packets wait through one more poll, if that one finds
// nothing. Every other step of the engine sends them: a post, a poll that finds more packets, a
// second empty one, a control verb, the progress thread's tick, and whatever precedes a sleep.
//
// They wait only in programs that answer: after eight waits that no post has ended, only one poll
// in 64 tries again. A program that computes for long after a message delays few of them.
//
// Threads: under the engine's lock.
#pragma once

#include <cstdint>

#include "nic/adapter/channel_adapter.h"

namespace verbena::engine {

class AckDelay {
public:
	static constexpr std::uint32_t waits_in_vain_max = 8, polls_between_tries = 64;

	// Says whether pending acknowledgements may wait after the pass of a poll. `moved`: it found
	// packets.
	adapter::Acks after_poll(bool moved) {
		if (!moved) return polls_ == 1 ? adapter::Acks::may_wait : adapter::Acks::leave;
		if (polls_ != 0) return adapter::Acks::leave;
		const bool answers = in_vain_ < waits_in_vain_max || ++polls_refused_ % polls_between_tries == 0;
		return answers ? adapter::Acks::may_wait : adapter::Acks::leave;
	}
	// The program posts a request, which takes along what waits.
	void note_post() {
		if (polls_ != 0) in_vain_ = polls_ = 0;
	}
	// After each step of the engine: whether acknowledgements wait now.
	void note(bool wait) {
		if (!wait && polls_ != 0 && in_vain_ < waits_in_vain_max) ++in_vain_;
		polls_ = wait ? polls_ + 1 : 0;
	}

	bool waiting() const { return polls_ != 0; }

private:
	std::uint32_t polls_ = 0;  // for how many polls acknowledgements have waited
	std::uint32_t in_vain_ = 0;  // waits in a row that no post has ended
	std::uint32_t polls_refused_ = 0;
};

}  // namespace verbena::engine
