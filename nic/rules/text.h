// SPDX-License-Identifier: Apache-2.0
// Text by the formats of printf(3).
//
// Threads: any.
// Errors: std::bad_alloc.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace verbena::rules {

[[gnu::format(printf, 1, 2)]] inline std::string text(const char* format, ...) {
	va_list arguments, again;
	va_start(arguments, format);
	va_copy(again, arguments);
	const int size = std::vsnprintf(nullptr, 0, format, arguments);
	va_end(arguments);
	std::string out(static_cast<std::size_t>(size < 0 ? 0 : size), '\0');
	std::vsnprintf(out.data(), out.size() + 1, format, again);
	va_end(again);
	return out;
}

}  // namespace verbena::rules
