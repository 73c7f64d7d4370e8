// SPDX-License-Identifier: Apache-2.0
// The table of profiles as text, for `verbena run --profile=list` and docs/profiles.md.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nic/profile/profile.h"

namespace verbena::profile {

// One line of the table: a limit or a feature, and its text in a profile. "?" stands for unknown.
struct Row {
	std::string_view name;
	std::string (*cell)(const Profile&);
};

// In the order of the table.
const std::vector<Row>& rows();

}  // namespace verbena::profile
