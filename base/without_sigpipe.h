// SPDX-License-Identifier: Apache-2.0
// Blocks SIGPIPE in this thread while a line is written to standard error, which may be a pipe
// without a reader. The system calls themselves are used, because the NIC interposes the functions
// of libc.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena {

class WithoutSigpipe {
public:
	WithoutSigpipe() { syscall(SYS_rt_sigprocmask, SIG_BLOCK, &sigpipe, &before_, sizeof before_); }
	// Takes the signal that a failed write has left pending, if it was not pending before.
	void take_pending() {
		if (before_ & sigpipe) return;
		const timespec at_once{};
		syscall(SYS_rt_sigtimedwait, &sigpipe, nullptr, &at_once, sizeof sigpipe);
	}
	~WithoutSigpipe() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
	WithoutSigpipe(const WithoutSigpipe&) = delete;
	WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

private:
	static constexpr std::uint64_t sigpipe = std::uint64_t{1} << (SIGPIPE - 1);
	std::uint64_t before_ = 0;
};

}  // namespace verbena
