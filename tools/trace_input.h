// SPDX-License-Identifier: Apache-2.0
// Reads the trace that a user names: a file of `verbena run --trace=FILE`, or a folder, or one of
// its files, that processes wrote with VERBENA_TRACE.
//
// Errors: a sentence with the path.
#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>

#include "nic/trace/read/trace_files.h"

namespace verbena::tools {

// A trace, or the text that `verbena run --trace` made of one.
using TraceInput = std::variant<trace::Trace, std::string>;

inline std::expected<TraceInput, std::string> read_trace_input(const std::string& path) {
	if (std::filesystem::is_directory(path) || path.ends_with(".trace")) {
		auto trace = trace::read_trace(path);
		if (!trace) return std::unexpected(trace.error());
		if (trace->processes.empty()) return std::unexpected(path + ": there is no trace of any process");
		return *std::move(trace);
	}
	std::ifstream file(path, std::ios::binary);
	std::stringstream text;
	text << file.rdbuf();
	if (!file) return std::unexpected(path + ": " + std::strerror(errno));
	return std::move(text).str();
}

}  // namespace verbena::tools
