// SPDX-License-Identifier: Apache-2.0
// The times of the first and last arrival of a run, without reading the clock for each message; and
// the question of a receiver that gets nothing: has its sender finished?
//
// Threads: one thread.
// Lifetime: the clock must outlive it.
#pragma once

#include "bench/far_end/control.h"
#include "bench/rcud/patience.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

// After this many empty polls the receiver counts as idle and reads the clock: the last arrival was
// less than a microsecond before.
inline constexpr std::uint32_t idle_polls_before_clock = 32;

// Reads the time by now() of its clock.
template <class AnyClock> class Arrivals {
public:
	explicit Arrivals(AnyClock& clock) : clock_(clock) {}

	// Call after a poll that delivered something; `so_far` is the number delivered, this poll
	// included.
	void batch(std::uint64_t so_far) {
		if (first_at_ == 0) {
			first_at_ = clock_.now();
			first_batch_ = so_far;
		}
		idle_polls_ = 0;
		silence_.restart();
	}

	// Call after a poll that delivered nothing. Returns true every `watch_every` polls: the caller
	// then asks its watcher.
	bool idle() {
		if (++idle_polls_ == idle_polls_before_clock) last_at_ = clock_.now();
		return idle_polls_ % watch_every == 0;
	}

	// True when nothing has arrived for `silence_ns` since the sender finished.
	bool silent(bool sender_finished) { return sender_finished && silence_.at(clock_.now()) > silence_ns; }

	// Call when the last message of the run has arrived.
	void all_came() { last_at_ = clock_.now(); }

	// Sets the counted messages and their time. The first batch is excluded, because the clock is
	// read after it; a run of one batch has no rate.
	void fill(Delivery& delivery) const {
		if (first_at_ == 0 || last_at_ <= first_at_ || delivery.delivered <= first_batch_) return;
		delivery.counted = delivery.delivered - first_batch_;
		delivery.counted_ns = last_at_ - first_at_;
	}

private:
	AnyClock& clock_;
	std::uint64_t first_at_ = 0, first_batch_ = 0, last_at_ = 0;
	std::uint32_t idle_polls_ = 0;
	Wait silence_;
};

// Asks the watcher whether the sender has finished, and remembers it in `sender_finished`.
inline bool ask(const Watcher& watcher, bool& sender_finished) {
	const Watch seen = watcher(false);
	if (seen == Watch::abandon) throw Failure(bench::peer_gave_up);
	sender_finished |= seen == Watch::finished;
	return sender_finished;
}

}  // namespace verbena::rcud
