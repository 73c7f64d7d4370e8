// check(): stops the process if our own code is wrong. It is on in every build, and prints the
// place and `what`, which states what should hold. Never for input from outside: a packet, a peer,
// a user.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace verbena {

[[noreturn, gnu::cold]] inline void check_failed(const char* what, const std::source_location& where) {
	std::fprintf(stderr, "verbena: %s:%u: %s: %s\n", where.file_name(), where.line(), where.function_name(), what);
	std::abort();
}

inline void check(bool holds, const char* what, const std::source_location where = std::source_location::current()) {
	if (!holds) [[unlikely]]
		check_failed(what, where);
}

}  // namespace verbena
