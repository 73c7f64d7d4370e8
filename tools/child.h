// SPDX-License-Identifier: Apache-2.0
// A program that runs as a child of this tool, in its process group, so that signals of the
// terminal reach it. SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 to the tool are passed on; the terminal's
// SIGINT and SIGQUIT are left to the program. If the tool is killed, the program is too.
//
// Threads: one child at a time, from the main thread.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace verbena::tools {

// Runs the program and returns its status as waitpid(2) gives it. The error is the errno value of a
// fork that failed. If the program cannot be executed, a message says so and its exit code is 127.
std::expected<int, int> run_child(const std::vector<std::string>& command);

// The exit code of a status of waitpid(2). If a signal ended the program, ends this process by the
// same signal.
int end_as(int status);

}  // namespace verbena::tools
