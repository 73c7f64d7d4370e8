// SPDX-License-Identifier: Apache-2.0
#include "tools/fault_options.h"

#include <fmt/format.h>

#include "base/random.h"
#include "nic/faults/spec/spec.h"
#include "tools/suggestion.h"

namespace verbena::tools {
namespace {

std::string message_of(const faults::Mistake& mistake) {
	std::string message = fmt::format("--faults: '{}' {}", mistake.word, mistake.reason);
	if (!mistake.unknown) return message;
	const std::vector<std::string> known(faults::words().begin(), faults::words().end());
	if (const std::string meant = suggestion(mistake.word, known); !meant.empty())
		message += fmt::format(" (did you mean '{}'?)", meant);
	return message + fmt::format("; the words are {}", fmt::join(known, ", "));
}

}  // namespace

std::expected<FaultText, std::string> fault_text(const std::vector<std::string>& options) {
	FaultText result{fmt::format("{}", fmt::join(options, ";")), {}};
	const auto spec = faults::parse(result.text);
	if (!spec) return std::unexpected(message_of(spec.error()));
	if (spec->seed) return result;
	result.drawn = secure_random<std::uint32_t>();
	result.text += fmt::format(";seed={}", *result.drawn);
	return result;
}

}  // namespace verbena::tools
