// Processes, cores and command lines of a measurement on one host: the server is this program again, in a process of
// its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::rcud {

// The descriptors that the server process inherits.
inline constexpr int control_fd_of_child = 3;
inline constexpr int page_fd_of_child = 4;

// A child process that ends with its owner: killed and reaped on destruction, and by the kernel if its owner dies.
class ChildProcess {
public:
	// fork and exec of `program` with `arguments` (without argv[0]) and the two descriptors. Call before any verbs
	// call: a forked process cannot use its parent's devices.
	ChildProcess(const std::string& program, const std::vector<std::string>& arguments, int control_fd, int page_fd);
	~ChildProcess();
	ChildProcess(const ChildProcess&) = delete;
	ChildProcess& operator=(const ChildProcess&) = delete;
	pid_t pid() const { return pid_; }

private:
	pid_t pid_;
};

// The two cores that two pinned processes use: the first two that this process may run on; empty when there is only
// one.
std::optional<std::pair<int, int>> two_cores();

// Pins the calling thread alone. Call after the device is open, so that its background threads stay free to go
// elsewhere.
void pin_to(int core);

std::string own_executable();

}  // namespace verbena::rcud
