// SPDX-License-Identifier: Apache-2.0
// Finds why a process of this host gives no answer: it is stopped by a signal or a debugger, or it
// has no descriptor left by which it could accept a connection. A process that waits for its answer
// can then give up early. The reason is found in /proc; where that is hidden, none is found.
//
// A process under strace is stopped at each of its system calls and goes on, and one that is short
// of descriptors may get some back. So a reason counts when several looks in a row have found it.
//
// Threads: used by one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace verbena::engine {

class SilentProcess {
public:
	// 0: the process lives in a foreign pid namespace, and nothing is known of it.
	explicit SilentProcess(pid_t pid) : pid_(pid) {}

	enum class Reason { unknown, stopped, without_descriptors };
	// Looks once more; the caller leaves some time between two looks.
	Reason look();

private:
	static constexpr int looks_until_certain = 4;

	pid_t pid_;
	std::optional<std::uint64_t> switches_;  // if it was stopped at the last look
	int stopped_ = 0, full_ = 0;             // the looks in a row that found it so
};

}  // namespace verbena::engine
