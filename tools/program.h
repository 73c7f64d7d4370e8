// SPDX-License-Identifier: Apache-2.0
// The frame of the main() of each program in this folder:
//
//     int main(int argc, char** argv) {
//         return verbena::tools::run_program("kv_server", act, argc, argv);
//     }
//
// It keeps descriptors that the program opens apart from the standard ones, prints one line
// "PROGRAM: REASON" for an exception, and does not let a program succeed whose output was lost.
//
// Errors: an exception, or output that could not be written, is exit code 1.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "base/standard_streams.h"
#include "tools/exception_reason.h"

namespace verbena::tools {

// fmt::print to standard error, which never fails.
template <class... T> void print_error(fmt::format_string<T...> format, T&&... values) {
	write_error(fmt::format(format, std::forward<T>(values)...));
}

inline int run_program(const char* name, int (*act)(int argc, char** argv), int argc, char** argv) {
	open_standard_descriptors();
	int status = 1;
	try {
		status = act(argc, argv);
	} catch (const std::exception& error) {
		// An exception about standard output says less than the line below.
		if (std::ferror(stdout) == 0) print_error("{}: {}\n", name, reason_of(error));
	}
	if (const std::string reason = flush_output(); !reason.empty()) {
		print_error("{}: cannot write standard output: {}\n", name, reason);
		if (status == 0) status = 1;
	}
	return status;
}

}  // namespace verbena::tools
