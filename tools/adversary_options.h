// SPDX-License-Identifier: Apache-2.0
// The option --adversary of `verbena run`: the text for VERBENA_ADVERSARY, with a seed.
//
// Threads: functions without state.
// Errors: a message for the user, which quotes the word that is wrong.
#pragma once

#include <expected>
#include <string>

namespace verbena::tools {

// If the option has no seed, the text gets a random one, so that all processes of the program have
// the same.
std::expected<std::string, std::string> adversary_text(const std::string& option);

}  // namespace verbena::tools
