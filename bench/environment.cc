// SPDX-License-Identifier: Apache-2.0
#include "bench/environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "base/statistics.h"
#include "commit.h"

namespace verbena::bench {

std::string cpu_name() {
	std::ifstream info("/proc/cpuinfo");
	for (std::string line; std::getline(info, line);)
		if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
	utsname name{};
	uname(&name);
	return name.machine;
}

std::string kernel_name() {
	utsname name{};
	uname(&name);
	return std::string(name.sysname) + ' ' + name.release + ' ' + name.machine;
}

std::string commit() { return VERBENA_COMMIT; }

std::string utc_now() {
	const std::time_t now = std::time(nullptr);
	std::tm parts{};
	gmtime_r(&now, &parts);
	char text[32];
	std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
	return text;
}

Environment machine(const std::string& command_line, const std::string& pinned) {
	return {
		{"cpu", cpu_name()},
		{"cores", pinned.empty() ? fmt::format("{}, not pinned", sysconf(_SC_NPROCESSORS_ONLN)) : pinned + ", pinned"},
		{"kernel", kernel_name()},
		{"commit", commit()},
		{"date", utc_now()},
		{"command", command_line},
	};
}

std::string between(const std::string& peer_host) {
	return peer_host.empty() ? ", two processes on one host" : ", to " + peer_host;
}

std::string core_to_core_ns(std::span<const Json> rows, std::initializer_list<const char*> names) {
	std::vector<double> trips;
	for (const Json& row : rows)
		for (const Json& repetition : row["repetitions"])
			for (const char* name : names)
				if (const auto took = number_of(repetition, name)) trips.push_back(took->value);
	return trips.empty() ? "" : fmt::format("{:.0f}", median(trips));
}

}  // namespace verbena::bench
