// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/fault_report.h"

#include <errno.h>
#include <unistd.h>

#include "base/check.h"

namespace verbena::kv {
namespace {

// For the handler, which may only call write() and _exit().
std::string message;

void report(int) {
	[[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
	_exit(1);
}

}  // namespace

FaultReport::FaultReport(const std::string& sentence) {
	check(message.empty(), "one report of faults at a time");
	message = std::string(program_invocation_short_name) + ": " + sentence + "\n";
	struct sigaction action{};
	action.sa_handler = report;
	for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
}

FaultReport::~FaultReport() {
	for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
	message.clear();
}

}  // namespace verbena::kv
