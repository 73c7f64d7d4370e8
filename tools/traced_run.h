// Runs a program whose NIC writes a trace, and writes the trace for people when it has ended.
//
// The program runs as a child (tools/child.h). If this process is killed, the program is too, as
// without a trace.
//
// Threads: the main thread only.
// Owns: the folder of the processes' files, and removes it once the trace is written.
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

// Runs the program and returns its exit code. If a signal ended it, ends this process by the same
// signal.
int run_traced(const std::vector<std::string>& command, const TraceOptions&);

}  // namespace verbena::tools
