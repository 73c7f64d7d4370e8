// SPDX-License-Identifier: Apache-2.0
// The second process of a measurement on one host (this program, started again as the server), and
// the cores that the two processes are pinned to.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::bench {

// The numbers of the descriptors that the server process inherits.
inline constexpr int control_fd_of_child = 3;
inline constexpr int page_fd_of_child = 4;

// A child process that does not outlive its owner.
//
// Owns: the process. The destructor kills and reaps it; the kernel kills it if its parent dies.
// Errors: a Failure if the fork fails; the child exits with 127 if the exec fails.
class ChildProcess {
public:
	// Forks and executes `program` with `arguments` (without argv[0]) and the two descriptors. Call
	// before any verbs call: a forked process cannot use its parent's devices.
	ChildProcess(const std::string& program, const std::vector<std::string>& arguments, int control_fd, int page_fd);
	~ChildProcess();
	ChildProcess(const ChildProcess&) = delete;
	ChildProcess& operator=(const ChildProcess&) = delete;

private:
	pid_t pid_;
};

// The text that `write` returns in a forked process, which then ends: for calls after which a
// process can no longer fork, such as those that open a device. Empty if the fork failed.
std::string text_of_child(const std::function<std::string()>& write);

// The first two cores that this process may run on; empty if it has only one.
std::optional<std::pair<int, int>> two_cores();

// Pins the calling thread. Call after the device is open: its background threads inherit the
// affinity of the thread that creates them, and must stay free to run on other cores.
void pin_to(int core);

// The path of the running program; throws a Failure.
std::string own_executable();

}  // namespace verbena::bench
