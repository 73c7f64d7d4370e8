// SPDX-License-Identifier: Apache-2.0
// The option --profile of `verbena run`: the name of a device profile, and the list of profiles.
//
// Threads: functions without state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace verbena::tools {

// The message for the user, with the nearest name, if there is no profile `name`.
std::optional<std::string> fault_of_profile(std::string_view name);

// The names of the profiles.
std::string names_of_profiles(std::string_view separator);

// The profiles as a table, one column each, and below it the device and the sources of each.
std::string list_of_profiles();

}  // namespace verbena::tools
