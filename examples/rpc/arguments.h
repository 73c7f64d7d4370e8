// SPDX-License-Identifier: Apache-2.0
// The arguments of the examples.
#pragma once

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
