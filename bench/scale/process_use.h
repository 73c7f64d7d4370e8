// A process as the kernel counts it, from /proc: its own or another, all its threads together.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace verbena::scale {

struct ProcessUse {
	std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
	std::uint64_t threads = 0;
	// Of the threads that it has now.
	double cpu_seconds = 0;
	std::uint64_t voluntary_switches = 0, involuntary_switches = 0;

	ProcessUse& operator+=(const ProcessUse& other);
};

// What the kernel has for sockets and descriptors, of the whole host: bytes of their slabs (which often only root may
// read; then these are not in it) and of the buffers of TCP.
std::uint64_t kernel_socket_bytes();

// Nothing but zeroes if there is no such process.
ProcessUse use_of_process(pid_t process);

}  // namespace verbena::scale
