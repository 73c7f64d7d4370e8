// The option --faults of `verbena run`: the text for VERBENA_FAULTS, with a seed.
//
// Threads: functions without state.
// Errors: a message for the user, which quotes the word that is wrong and names the way out.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace verbena::tools {

// One text for all of the options, which adds their clauses. If none has a seed, the text gets a
// random one.
std::expected<std::string, std::string> fault_text(const std::vector<std::string>& options);

}  // namespace verbena::tools
