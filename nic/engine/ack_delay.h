// SPDX-License-Identifier: Apache-2.0
// Decides how long acknowledgements wait for the program's next request, so that both leave
// together (docs/decisions/0034, 0055 and 0063). ack_can_wait() in transport/answers.h says which
// ones may wait.
//
// A program that has received a message by polling often posts its answer at once, and one that
// waits for bytes in memory answers a message that the progress thread took in. So the
// acknowledgements of a pass that took in requests wait. They wait through more such passes,
// because a message can be of several packets, and through some polls that find nothing. The
// thread sends what has waited for `tick_pause` since it first saw it. A post, a control verb, and
// whatever precedes a sleep send them at once.
//
// They wait only in programs that answer: after eight waits that no post has ended, the next one
// begins only after 64 passes with requests. A program that computes for long after a message
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
	// One wait goes through this many passes with requests, and after each of them through this
	// many polls without any. In shared memory, the peer's own acknowledgement can be visible some
	// polls later than the request before it.
	static constexpr std::uint32_t passes_max = 8, empty_polls_max = 16;
	static constexpr Nanoseconds tick_pause = 50'000;

	// Says whether pending acknowledgements may wait after a poll. `requests`: its pass took in
	// some.
	adapter::Acks after_poll(bool requests) {
		if (!requests) return may_wait(waiting_ && ++empty_polls_ <= empty_polls_max);
		empty_polls_ = 0;
		if (waiting_) return may_wait(++passes_ <= passes_max);
		return may_wait(in_vain_ < waits_in_vain_max || ++passes_refused_ >= passes_between_tries);
	}
	// The same after a pass of the progress thread.
	adapter::Acks after_tick(bool requests, Nanoseconds now) {
		is_tick_ = true;
		if (!waiting_ || due_ == never) due_ = now + tick_pause;
		if (now >= due_) return adapter::Acks::leave;
		return requests ? after_poll(true) : may_wait(waiting_);
	}
	// The program posts a request, which takes along what waits.
	void note_post() {
		if (waiting_) in_vain_ = 0;
		waiting_ = false;
	}
	// After each step of the engine: whether acknowledgements wait now.
	void note(bool wait) {
		const bool is_tick = std::exchange(is_tick_, false);
		if (!wait) {
			if (waiting_ && in_vain_ < waits_in_vain_max) ++in_vain_;
		} else if (!waiting_) {
			passes_ = 1;
			empty_polls_ = passes_refused_ = 0;
			if (!is_tick) due_ = never;
		}
		waiting_ = wait;
	}

	bool waiting() const { return waiting_; }
	// When a tick sends what waits; `never` if no tick has seen it yet.
	Nanoseconds due() const { return due_; }

private:
	static adapter::Acks may_wait(bool may) { return may ? adapter::Acks::may_wait : adapter::Acks::leave; }

	bool waiting_ = false;
	bool is_tick_ = false;  // the step that note() ends is a tick
	std::uint32_t passes_ = 0, empty_polls_ = 0;  // during this wait
	Nanoseconds due_ = never;
	std::uint32_t in_vain_ = 0;  // waits in a row that no post has ended
	std::uint32_t passes_refused_ = 0;  // passes with requests, since waits are refused
};

}  // namespace verbena::engine
