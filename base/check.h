// SPDX-License-Identifier: Apache-2.0
// check(): stops the process if our own code is wrong. It is on in every build. If `holds` is
// false, it prints the place of the call and `what`, a text that names the condition or the fault.
// Input from outside (a packet, a peer, a user) is never a reason for check() to fail.
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
