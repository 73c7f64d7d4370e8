// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/fault_injection.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/time.h"

namespace verbena::verbs {

std::expected<std::unique_ptr<faults::Network>, int> network_of_environment() {
	const char* const text = std::getenv("VERBENA_FAULTS");
	if (!text || *text == '\0') return nullptr;
	auto spec = faults::parse(text);
	if (!spec) {
		log::error("VERBENA_FAULTS: '%s' %s", spec.error().word.c_str(), spec.error().reason.c_str());
		return std::unexpected(EINVAL);
	}
	const std::uint64_t seed = spec->seed ? *spec->seed : secure_random<std::uint32_t>();
	return std::make_unique<faults::Network>(std::move(*spec), seed, monotonic_now());
}

void report_faults(engine::Engine& engine) {
	const std::string summary = engine.control([&](adapter::ChannelAdapter&) { return engine.network()->summary(); });
	log::answer("faults of %s (%d): %s", program_invocation_short_name, getpid(), summary.c_str());
}

}  // namespace verbena::verbs
