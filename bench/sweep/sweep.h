// SPDX-License-Identifier: Apache-2.0
// The sweep of an experiment: runs the repetitions of its trials interleaved, so that a
// disturbance of the machine affects all of them, and makes the judged table.
//
// A row counts the repetitions at the distance between the processors at which most of the sweep
// was measured (bench/judge/distance.h). A trial that has too few of them is measured again, at
// most as often as it was measured at first; not if fewer than three repetitions are asked for.
//
// The table so far is written after a repetition, at most once a second and in at most a twentieth
// of the time, with `unfinished` in its environment. So a sweep that is killed leaves its rows.
// Ctrl-C ends the sweep after the repetition that runs, with all rows kept; a second Ctrl-C ends
// the process. Either can be resumed: the repetitions of an earlier table count, if its environment
// has the same `settings`, `device`, `link`, `connect` and `commit`.
//
// Threads: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/judge/experiment.h"
#include "bench/sweep/output.h"

namespace verbena::bench {

struct Measured {
	Json repetition;  // as it stands in a table
	bool failed = false;  // the trial is not run again
	bool far_end_lost = false;  // no trial is run again
};

// Shows a step of a trial beside its name in the progress line.
using ShowStep = std::function<void(const std::string& step)>;

// One cell of an experiment.
class Trial {
public:
	virtual ~Trial() = default;
	// Whether it can be measured; otherwise its row says why not.
	virtual bool can_run() const = 0;
	virtual Measured measure(const ShowStep& show) = 0;
	// The row with these repetitions, not judged yet.
	virtual Json row(Json repetitions) const = 0;
};

struct SweepOptions {
	std::uint32_t repetitions = 5;
	bool quiet = false;   // no progress line
	std::string resume;  // the JSON table of an earlier sweep; empty: none
};

struct SweepEnd {
	Table table;
	std::string error;         // nothing was measured, or a file could not be written
	bool failed = false;       // a trial could not be measured; its row says why
	bool interrupted = false;  // by Ctrl-C
};

// The environment of the rows measured so far. A name that decides whether a sweep
// can be resumed may be left out.
using DescribeEnvironment = std::function<Environment(std::span<const Json> rows)>;

SweepEnd sweep(const Experiment& experiment, std::span<const std::unique_ptr<Trial>> trials,
	const DescribeEnvironment& describe, const SweepOptions& options, OutputFiles& files);

}  // namespace verbena::bench
