// SPDX-License-Identifier: Apache-2.0
// The processor time of a repetition, beside the time that it took and the machine's processors.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

struct ProcessorTime {
	double used_s, elapsed_s;
	std::uint64_t operations;
};

// Invalid if it is more than the `cores` of the environment give, or next to none for many
// operations; or if an environment of ours (with a `commit`) does not say how many cores there
// were.
void examine_processor_time(const Environment& environment, const ProcessorTime& time, Findings& findings);

}  // namespace verbena::bench
