// SPDX-License-Identifier: Apache-2.0
// Writing to and reading from a descriptor that wakes threads: an eventfd or a pipe.
//
// Threads: any. The eventfd functions are no cancellation points, because the data path calls them
//   under locks.
// Errors: none. A call that fails, because of a signal for example, is repeated; a non-blocking
//   eventfd whose counter is full rings already, and one that is silent needs no reading.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace verbena::engine {

// The kernel documents no error that a second attempt would repeat, except EAGAIN, which is no
// failure. A lost ring would strand its receiver; a ring that stays readable would send a program
// that polls the descriptor to sleep in the verb that follows.
inline constexpr int attempts_max = 3;

inline void signal_eventfd(int fd, std::uint64_t count = 1) {
	for (int attempt = 0; attempt < attempts_max; ++attempt)
		if (syscall(SYS_write, fd, &count, sizeof count) == sizeof count) return;
}

// `fd` is non-blocking, or readable. Returns the sum of the counts, 0 if there was none.
inline std::uint64_t drain_eventfd(int fd) {
	std::uint64_t count = 0;
	for (int attempt = 0; attempt < attempts_max; ++attempt)
		if (syscall(SYS_read, fd, &count, sizeof count) >= 0 || errno == EAGAIN) return count;
	return 0;
}

// Reads at most `bytes` bytes, and nothing if the program itself has read the descriptor, which may
// block.
inline void read_if_readable(int fd, void* into, std::size_t bytes) {
	for (int attempt = 0; attempt < attempts_max; ++attempt) {
		pollfd readable{fd, POLLIN, 0};
		const int ready = ::poll(&readable, 1, 0);
		// NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
		if (ready == 0 || (ready > 0 && syscall(SYS_read, fd, into, bytes) >= 0)) return;
	}
}

}  // namespace verbena::engine
