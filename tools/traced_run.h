// SPDX-License-Identifier: Apache-2.0
// `verbena run --trace`: what is to be done before and after a program whose NIC writes a trace.
//
// The program runs as a child (tools/child.h). If this process is killed, the program is too, as
// without a trace.
//
// Threads: the main thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace verbena::tools {

struct TraceOptions {
	bool wanted = false;
	std::string pcap;  // a file for the packets; empty: none
	std::string file;  // empty: standard error
	std::string format;  // "text", "json", or by the name of the file
	std::string only;  // a filter (nic/trace/read/trace_files.h)
	bool shown = false;  // the trace itself, not its packets alone
	std::string size = "16M";  // bytes of memory for each process
};

// A message if the options make no sense.
std::optional<std::string> fault_of(const TraceOptions&);

// Owns: the folder of the processes' files, and removes it, unless the trace could not be written.
class TracedRun {
public:
	explicit TracedRun(const TraceOptions& options) : options_(options) {}
	TracedRun(const TracedRun&) = delete;
	TracedRun& operator=(const TracedRun&) = delete;
	~TracedRun();

	// Sets the environment of the program. An exit code if that fails.
	std::optional<int> begin();
	// The program has ended: writes the trace for people.
	void finish();

private:
	const TraceOptions& options_;
	std::string folder_;  // empty: nothing is to be removed
};

}  // namespace verbena::tools
