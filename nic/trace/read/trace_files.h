// SPDX-License-Identifier: Apache-2.0
// Reads the files of a trace (nic/trace/record.h): the events of all processes in the order of
// time. A refused call gets its reason, a request its times.
//
// Threads: any; no function keeps state.
// Errors: a message with the reason. A file is not trusted: a program may have overwritten it, so
//   an event that makes no sense is left out.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nic/trace/record.h"

namespace verbena::trace {

struct Process {
	std::uint32_t pid = 0;
	std::string program;
	std::uint64_t began = 0;  // CLOCK_MONOTONIC, in nanoseconds
	std::uint64_t epoch = 0;  // CLOCK_REALTIME minus CLOCK_MONOTONIC
	std::uint64_t written = 0;  // events
	std::uint64_t dropped = 0;  // events that later ones have overwritten
};

struct Event {
	Record record;
	std::size_t process = 0;  // its place in Trace::processes
	std::string bytes;
	std::string reason;  // a refused call: why
	// finished and polled: the time since the request was posted; polled also: the time since it
	// completed. Nanoseconds.
	std::optional<std::uint64_t> since_post, since_completion;

	// The parts of a verb's bytes: its name, its arguments, its result.
	std::string_view part(std::size_t index) const;
	bool failed() const;
};

struct Trace {
	std::vector<Process> processes;
	std::vector<Event> events;
	// The process that has this queue pair, as far as its events show.
	const Process* owner_of(std::uint32_t qpn) const;
	std::uint64_t written() const;
	std::uint64_t dropped() const;
};

// `path` is a folder with files *.trace, or one such file.
std::expected<Trace, std::string> read_trace(const std::string& path);

// Says which events are to be shown.
struct Filter {
	std::vector<std::uint32_t> queue_pairs;  // empty: all
	std::vector<std::string> verbs;  // empty: all
	bool errors = false;  // only failures, refusals and waits

	bool shows(const Event&) const;
};
// Reads "qp=0x1007,verb=ibv_modify_qp,errors". The error names the word that is wrong.
std::expected<Filter, std::string> parse_filter(std::string_view text);

}  // namespace verbena::trace
