// SPDX-License-Identifier: Apache-2.0
// The text that a program prints when an exception ends it.
#pragma once

#include <exception>
#include <string>
#include <system_error>

namespace verbena::tools {

// For a thread that cannot start, the limits that forbid it; the C++ library only says "Resource
// temporarily unavailable".
inline std::string reason_of(const std::exception& error) {
	const auto* const system = dynamic_cast<const std::system_error*>(&error);
	if (system == nullptr || system->code() != std::errc::resource_unavailable_try_again) return error.what();
	return "the system allows no further thread: raise `ulimit -u`, or pids.max of the control group";
}

}  // namespace verbena::tools
