// SPDX-License-Identifier: Apache-2.0
// Traces of one or several processes on one time line, in the JSON format of Chrome's trace viewer,
// which https://ui.perfetto.dev and chrome://tracing open.
//
// Each process has the threads that called verbs, with a slice for each call. Each queue pair has a
// row of its packets, from which arrows lead to where a packet arrived in another process, and rows
// of its send requests, from post to finish, and of its completions, until they are polled.
//
// Processes are placed by CLOCK_REALTIME: those of one host are in the right order, those of
// several hosts are as far off as the hosts' clocks.
//
// Format: "Trace Event Format" of the Chromium project.
// Threads: each object is used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nic/trace/read/trace_files.h"

namespace verbena::trace {

class Timeline {
public:
	// Adds all events of a trace.
	void add(const Trace&);
	// Adds the events of JSON lines (text.h, Format::json). Lines that are no event are left out.
	// Returns the number of events.
	std::size_t add_lines(std::string_view lines);

	// Sorts the events and returns the document, which ends with a newline.
	std::string render();

private:
	struct Event {
		std::uint64_t time = 0;  // CLOCK_REALTIME, in nanoseconds
		std::uint64_t wr_id = 0;
		std::uint64_t took = 0;  // verb: nanoseconds; polled: those since the completion
		std::uint32_t pid = 0, thread = 0, qp = 0, peer = 0, psn = 0;
		bool failed = false;
		std::string program, kind, name, line;
	};
	friend class TimelineWriter;

	bool add_line(std::string_view line);

	std::vector<Event> events_;
};

}  // namespace verbena::trace
