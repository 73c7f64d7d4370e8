// SPDX-License-Identifier: Apache-2.0
// Decides how long acknowledgements to other hosts wait, so that they leave by the same system call
// as the program's next request (docs/decisions/0034 and 0055).
//
// A program that has received a message by polling often posts its answer at once. So the
// acknowledgements of a poll that found packets wait through one more poll, if that one finds
// nothing. A program that waits for bytes in memory posts its answer to a message that the progress
// thread took in: those acknowledgements wait as well. The thread sends what has waited for
// `tick_pause` since it first saw it. Every other step of the engine sends them: a post, a poll or
// a tick that finds more packets, a second empty poll, a control verb, and whatever precedes a
// sleep.
//
// They wait only in programs that answer: after eight waits that no post has ended, the next one
// begins only after 64 passes that found packets. A program that computes for long after a message
// delays few of them.
//
// Threads: under the engine's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"

namespace verbena::engine {

class AckDelay {
public:
	static constexpr std::uint32_t waits_in_vain_max = 8, passes_between_tries = 64;
	static constexpr Nanoseconds tick_pause = 50'000;

	// Says whether pending acknowledgements may wait after the pass of a poll. `moved`: it found
	// packets.
	adapter::Acks after_poll(bool moved) {
		if (!moved) return polls_ == 1 ? adapter::Acks::may_wait : adapter::Acks::leave;
		if (polls_ != 0) return adapter::Acks::leave;
		const bool answers = in_vain_ < waits_in_vain_max || ++passes_refused_ >= passes_between_tries;
		return answers ? adapter::Acks::may_wait : adapter::Acks::leave;
	}
	// The same after a pass of the progress thread.
	adapter::Acks after_tick(bool moved, Nanoseconds now) {
		is_tick_ = true;
		if (polls_ == 0 || due_ == never) due_ = now + tick_pause;
		if (moved) return after_poll(true);
		return polls_ != 0 && now < due_ ? adapter::Acks::may_wait : adapter::Acks::leave;
	}
	// The program posts a request, which takes along what waits.
	void note_post() {
		if (polls_ != 0) in_vain_ = polls_ = 0;
	}
	// After each step of the engine: whether acknowledgements wait now.
	void note(bool wait) {
		const bool is_tick = std::exchange(is_tick_, false);
		if (!wait) {
			if (polls_ != 0 && in_vain_ < waits_in_vain_max) ++in_vain_;
			polls_ = 0;
		} else if (polls_ == 0) {
			polls_ = 1;
			passes_refused_ = 0;
			if (!is_tick) due_ = never;
		} else if (!is_tick) {
			++polls_;
		}
	}

	bool waiting() const { return polls_ != 0; }
	// When a tick sends what waits; `never` if no tick has seen it yet.
	Nanoseconds due() const { return due_; }

private:
	// For how many polls acknowledgements have waited; a tick that began the wait counts as one.
	std::uint32_t polls_ = 0;
	Nanoseconds due_ = never;
	bool is_tick_ = false;  // the step that note() ends is a tick
	std::uint32_t in_vain_ = 0;  // waits in a row that no post has ended
	std::uint32_t passes_refused_ = 0;  // passes with packets, since waits are refused
};

}  // namespace verbena::engine
