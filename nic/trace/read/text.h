// SPDX-License-Identifier: Apache-2.0
// A trace as text for people, and as one JSON object a line.
//
// A line of text has the time since the trace began in seconds, the process, and the event:
//
//     0.001234567  812 ibv_rc_pingpong  qp 0x1007 -> 0x2003: RC SEND_ONLY psn 0x3f, 64 bytes
//
// docs/trace.md describes the lines, and the members of the objects.
//
// Threads: any; no function keeps state.
#pragma once

#include <optional>
#include <string>

#include "nic/trace/read/trace_files.h"

namespace verbena::trace {

enum class Format { text, json };

// The whole trace, each line ended by a newline.
std::string render(const Trace&, Format, const Filter& = {});
// The explanations of a trace, each once, in the order of time.
std::vector<std::string> explanations(const Trace&);
// The same from the text of render(), in either format, also among other lines. Returns nothing if
// the text has no line of a trace; an empty text is the trace of a program that did nothing.
std::optional<std::vector<std::string>> explanations_in(std::string_view rendered);

}  // namespace verbena::trace
