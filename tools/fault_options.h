// SPDX-License-Identifier: Apache-2.0
// The option --faults of `verbena run`: the text for VERBENA_FAULTS, with a seed.
//
// Threads: functions without state.
// Errors: a message for the user, which quotes the word that is wrong and names the way out.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

namespace verbena::tools {

struct FaultText {
	std::string text;
	std::optional<std::uint64_t> drawn;  // the random seed of the text, if the options have none
};

// One text for all of the options, which adds their clauses. If none has a seed, the text gets a
// random one.
std::expected<FaultText, std::string> fault_text(const std::vector<std::string>& options);

}  // namespace verbena::tools
