// SPDX-License-Identifier: Apache-2.0
#include "tools/adversary_options.h"

#include <fmt/format.h>

#include "base/random.h"
#include "nic/adversary/spec/spec.h"

namespace verbena::tools {

std::expected<std::string, std::string> adversary_text(const std::string& option) {
	auto spec = adversary::parse(option);
	if (!spec) return std::unexpected(fmt::format("--adversary: '{}' {}", spec.error().word, spec.error().reason));
	if (!spec->seed) spec->seed = secure_random<std::uint32_t>();
	return adversary::text_of(*spec);
}

}  // namespace verbena::tools
