// Ctrl-C while a benchmark runs: it ends after the run that is under way, and keeps what it has measured. A second one
// ends it at once. One at a time in a process; what it forks meanwhile ignores Ctrl-C and is ended by it.
#pragma once

#include <atomic>
#include <csignal>

namespace verbena::tools {

// As shells say it: 128 and the signal's number.
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

	bool asked() const { return asked_; }

private:
	static inline std::atomic<bool> asked_ = false;
	struct sigaction before_{};
};

}  // namespace verbena::tools
