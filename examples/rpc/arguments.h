// SPDX-License-Identifier: Apache-2.0
// The arguments of the examples, and the message of a call that failed.
#pragma once

#include <verbena/rpc.h>

#include <cstdio>
#include <cstdlib>

// Returns the first argument if it is a port; otherwise prints the usage and ends the program.
inline const char* port_argument(int count, char** words, const char* usage) {
	char* end = nullptr;
	const long port = count > 1 ? std::strtol(words[1], &end, 10) : -1;
	if (end != nullptr && end != words[1] && *end == '\0' && port >= 0 && port <= 65'535) return words[1];
	std::fprintf(stderr, "usage: %s %s\n", words[0], usage);
	std::exit(2);
}

// Prints the error of a call, and returns the exit code of the program.
inline int failed(const verbena::rpc::rpc_error& error) {
	std::fprintf(stderr, "error %u: %s\n", error.val(), error.msg.c_str());
	return 1;
}
