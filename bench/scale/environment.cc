#include "bench/scale/environment.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/statistics.h"
#include "bench/environment.h"
#include "lib/verbs/device.h"

namespace verbena::scale {
namespace {

// The device in one line, with its parts separated by '\t'; empty if there is none.
std::string describe_device(bool both_ends_on_this_host) {
	const auto device = lib::open_best({.both_ends_on_this_host = both_ends_on_this_host});
	if (!device) return {};
	const bool software = device->choice.software;
	std::string link = device->ethernet() ? "Ethernet" : "InfiniBand";
	if (const std::string rate = lib::rate_text(device->port); !rate.empty() && !software) link += ", " + rate;
	if (both_ends_on_this_host) link += ", processes on one host";
	return fmt::format("{}\t{}\t{}\t{}\t{}", device->choice.device, software ? "software" : "hardware",
		lib::format_gid(device->choice.gid), device->mtu_bytes(), link);
}

std::string core_to_core_ns(std::span<const bench::Json> rows) {
	std::vector<double> trips;
	for (const bench::Json& row : rows)
		for (const bench::Json& repetition : row.at("repetitions"))
			if (const auto took = bench::number_of(repetition, "round_trip_ns")) trips.push_back(took->value);
	return trips.empty() ? "" : fmt::format("{:.0f}", median(trips));
}

}  // namespace

DeviceHere device_here(bool both_ends_on_this_host) {
	int ends[2];
	if (pipe(ends) != 0) return {};
	const pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		const std::string text = describe_device(both_ends_on_this_host);
		std::_Exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
	}
	close(ends[1]);
	std::string text;
	char piece[512];
	for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;)
		text.append(piece, static_cast<std::size_t>(got));
	close(ends[0]);
	if (child > 0) waitpid(child, nullptr, 0);
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
		{"core_to_core_ns", core_to_core_ns(rows)},
	};
	const auto machine = bench::machine(surroundings.command_line);
	environment.insert(environment.end(), machine.begin(), machine.end());
	return environment;
}

}  // namespace verbena::scale
