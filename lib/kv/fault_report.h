// SPDX-License-Identifier: Apache-2.0
// FaultReport: while it exists, a fault in this process (SIGSEGV, SIGBUS, SIGABRT) prints a
// sentence and ends the process with status 1. LMDB follows the offsets in a damaged file and has
// no check for all of them.
//
// Threads: one FaultReport at a time in a process.
#pragma once

#include <signal.h>

#include <array>
#include <string>

namespace verbena::kv {

class FaultReport {
public:
	explicit FaultReport(const std::string& sentence);
	~FaultReport();
	FaultReport(const FaultReport&) = delete;
	FaultReport& operator=(const FaultReport&) = delete;

private:
	static constexpr std::array signals{SIGSEGV, SIGBUS, SIGABRT};
	std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace verbena::kv
