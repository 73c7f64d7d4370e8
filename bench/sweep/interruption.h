// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a benchmark runs: the first one asks it to end after the current run and to keep its
// results; the second one ends the process at once.
//
// Lifetime: SIGINT is handled while the object lives; the destructor restores the handler before
//   it.
// Invariants: one object at a time in a process.
#pragma once

#include <atomic>
#include <csignal>

namespace verbena::bench {

// The exit code: 128 plus the signal's number, as shells report it.
inline constexpr int interrupted = 130;

class Interruption {
public:
	Interruption() {
		struct sigaction action{};
		action.sa_handler = [](int) { asked_ = true; };
		action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
		asked_ = false;
		sigaction(SIGINT, &action, &before_);
	}
	~Interruption() { sigaction(SIGINT, &before_, nullptr); }
	Interruption(const Interruption&) = delete;
	Interruption& operator=(const Interruption&) = delete;

	// Whether Ctrl-C was pressed since the construction.
	bool asked() const { return asked_; }

private:
	static inline std::atomic<bool> asked_ = false;
	struct sigaction before_{};
};

}  // namespace verbena::bench
