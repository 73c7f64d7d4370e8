// SPDX-License-Identifier: Apache-2.0
// The resources that a process uses, from /proc: memory, threads, CPU time, context switches.
//
// Threads: thread-safe.
// Errors: a file that is missing or not readable counts as zero.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace verbena::scale {

struct ProcessUse {
	std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
	std::uint64_t threads = 0;
	// Sums over the threads that exist now; those of threads that have ended are missing.
	double cpu_seconds = 0;
	std::uint64_t voluntary_switches = 0, involuntary_switches = 0;

	ProcessUse& operator+=(const ProcessUse& other);
};

// The kernel's memory for sockets and descriptors of the whole host, in bytes: their slabs, which
// usually only root may read (else they are left out), and the buffers of TCP.
std::uint64_t kernel_socket_bytes();

// User and system time in the line of /proc/PID/stat: its 14th and 15th field, in clock ticks
// (proc(5)). The second field is a name in brackets, which may contain spaces and brackets.
double cpu_seconds_in(const std::string& stat);

// All zeros if there is no such process.
ProcessUse use_of_process(pid_t process);

}  // namespace verbena::scale
