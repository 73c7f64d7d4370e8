// SPDX-License-Identifier: Apache-2.0
// Says to the progress thread whether threads of the program poll (decision 61).
//
// A poll either makes a pass or misses: it finds another thread in a pass and returns. A poll that
// misses a pass of the progress thread counts as much as a pass. The program takes in what comes
// next, and if the progress thread went on, the two would only wait for each other.
//
// Threads: add_miss() any; the rest under the engine's lock, by the progress thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::engine {

class ProgramPolls {
public:
	// Threads that miss at the same time may count as one: only a change of the number matters.
	void add_miss() { misses_.store(misses() + 1, std::memory_order_relaxed); }

	// A round of the progress thread begins. `passes`: the number of all threads' passes so far.
	// True: the program has polled since the last round began.
	bool begin_round(std::uint64_t passes) {
		const std::uint32_t misses_before = misses_at_begin_;
		misses_at_begin_ = misses();
		return passes != passes_at_end_ || misses_at_begin_ != misses_before;
	}
	// The program has polled since this round began.
	bool polls_now() const { return misses() != misses_at_begin_; }
	void end_round(std::uint64_t passes) { passes_at_end_ = passes; }

private:
	std::uint32_t misses() const { return misses_.load(std::memory_order_relaxed); }

	// Written by polls that hold no lock, so on a line of its own.
	alignas(64) std::atomic<std::uint32_t> misses_{0};
	alignas(64) std::uint32_t misses_at_begin_ = 0;
	std::uint64_t passes_at_end_ = 0;
};

}  // namespace verbena::engine
