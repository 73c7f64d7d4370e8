// SPDX-License-Identifier: Apache-2.0
// The line that a benchmark shows on a terminal while it runs: the number of the current run, its
// name, and an estimate of the time left. Prints nothing if standard error is no terminal.
//
// Lifetime: the destructor erases the line.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "base/standard_streams.h"
#include "base/time.h"

namespace verbena::bench {

// 90 s, 12 min, 2.5 h
inline std::string duration_text(double seconds) {
	if (seconds < 100) return fmt::format("{:.0f} s", seconds);
	if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
	return fmt::format("{:.1f} h", seconds / 3600);
}

class ProgressLine {
public:
	// `all`: the number of runs.
	ProgressLine(bool shown, std::size_t all) : shown_(shown && isatty(STDERR_FILENO) == 1), all_(all) {}
	~ProgressLine() {
		if (shown_) write_error("\r\033[K");
	}
	ProgressLine(const ProgressLine&) = delete;
	ProgressLine& operator=(const ProgressLine&) = delete;

	// Call when a run begins; `what` names it.
	void next(std::string what) {
		what_ = std::move(what);
		++begun_;
		show("");
	}
	// Shows what the current run is doing.
	void show(const std::string& doing) const {
		if (!shown_) return;
		const double elapsed = static_cast<double>(monotonic_now() - start_) / 1e9;
		const std::size_t done = begun_ - 1;
		const std::string left =
			done == 0 ? "?" : duration_text(elapsed / static_cast<double>(done) * static_cast<double>(all_ - done));
		write_error(fmt::format(
			"\r\033[K{} of {}: {}{}{}, {} left", begun_, all_, what_, doing.empty() ? "" : ": ", doing, left));
	}

private:
	bool shown_;
	std::size_t all_, begun_ = 0;
	std::string what_;
	Nanoseconds start_ = monotonic_now();
};

}  // namespace verbena::bench
