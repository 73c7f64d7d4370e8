// SPDX-License-Identifier: Apache-2.0
// One run of a program, or of a server and its client, by `verbena run` with options, with a limit
// of time.
//
// Threads: the main thread only.
// Owns: the processes; all have ended when run_trial() returns, also those that a shell has left.
// Errors: std::system_error if a process or its output file cannot be made; TrialStopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/time.h"

namespace verbena::tools {

struct Trial {
	std::vector<std::string> options;  // those of `verbena run`
	std::vector<std::string> program;
	std::string server;  // a command for sh(1), which runs beside the program; empty: there is none
	Nanoseconds limit = 60'000'000'000;
	// The longest wait for the server to listen on a TCP port, before the program starts.
	Nanoseconds server_wait = 1'000'000'000;
	// Asked several times a second; true: the run ends by TrialStopped. Empty: it never does.
	std::function<bool()> stop;
};

struct TrialStopped {};

struct Verdict {
	std::string failure;  // "exit status 1", "signal 11 (Segmentation fault)"; empty: it succeeded
	std::string output;  // the last bytes of what both printed
	Nanoseconds took = 0;
};

Verdict run_trial(const Trial&);

}  // namespace verbena::tools
