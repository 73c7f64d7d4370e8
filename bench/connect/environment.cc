// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/environment.h"

#include <fmt/format.h>

#include "bench/environment.h"

namespace verbena::connect {

bench::Environment environment_of(const lib::OpenDevice& device, const std::string& connect, std::uint32_t count,
	const Circumstances& circumstances, std::span<const bench::Json> rows) {
	bench::Environment environment{
		{"device", device.choice.device},
		{"kind", device.choice.software ? "software" : "hardware"},
		{"gid", lib::format_gid(device.choice.gid)},
		{"mtu", std::to_string(device.mtu_bytes())},
		{"link", lib::link_text(device) + bench::between(circumstances.peer_host)},
		{"connect", connect},
		{"settings", fmt::format("count {}", count)},
		{"core_to_core_ns", bench::core_to_core_ns(rows, {"round_trip_ns"})},
	};
	const auto machine = bench::machine(circumstances.command_line);
	environment.insert(environment.end(), machine.begin(), machine.end());
	return environment;
}

}  // namespace verbena::connect
