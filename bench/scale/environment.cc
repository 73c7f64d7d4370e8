// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/sizes.h"
#include "bench/environment.h"
#include "bench/far_end/launch.h"
#include "lib/verbs/device.h"

namespace verbena::scale {
namespace {

// The device in one line, with its parts separated by '\t'; empty if there is none.
std::string describe_device(bool both_ends_on_this_host) {
	const auto device = lib::open_best({.both_ends_on_this_host = both_ends_on_this_host});
	if (!device) return {};
	const bool software = device->choice.software;
	const std::string link = lib::link_text(*device) + (both_ends_on_this_host ? ", processes on one host" : "");
	return fmt::format("{}\t{}\t{}\t{}\t{}", device->choice.device, software ? "software" : "hardware",
		lib::format_gid(device->choice.gid), device->mtu_bytes(), link);
}

}  // namespace

DeviceHere device_here(bool both_ends_on_this_host) {
	const std::string text = bench::text_of_child([=] { return describe_device(both_ends_on_this_host); });
	const auto parts = split(text, '\t');
	if (parts.size() != 5) return {};
	const auto part = [&](std::size_t index) { return std::string(parts[index]); };
	return {.device = part(0), .kind = part(1), .gid = part(2), .mtu = part(3), .link = part(4)};
}

bench::Environment environment_of(const Surroundings& surroundings, std::span<const bench::Json> rows) {
	const DeviceHere& device = surroundings.device;
	const auto memory =
		static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	bench::Environment environment{
		{"device", device.device},
		{"kind", device.kind},
		{"gid", device.gid},
		{"mtu", device.mtu},
		{"link", device.link},
		{"server", surroundings.server == "own" ? "a process of its own on this host" : surroundings.server},
		{"settings", surroundings.settings},
		{"memory_bytes", std::to_string(memory)},
		{"core_to_core_ns", bench::core_to_core_ns(rows, {"round_trip_ns"})},
	};
	const auto machine = bench::machine(surroundings.command_line);
	environment.insert(environment.end(), machine.begin(), machine.end());
	return environment;
}

}  // namespace verbena::scale
