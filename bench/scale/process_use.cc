// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/process_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace verbena::scale {
namespace {

constexpr std::string_view socket_slabs[]{"TCP", "sock_inode_cache", "filp", "eventpoll_epi"};

// "VmRSS:     1234 kB" -> 1234
std::uint64_t number_of(const std::string& line) {
	return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
}

double cpu_seconds_of(pid_t process) {
	std::ifstream stat(fmt::format("/proc/{}/stat", process));
	std::string line;
	std::getline(stat, line);
	return cpu_seconds_in(line);
}

}  // namespace

ProcessUse& ProcessUse::operator+=(const ProcessUse& other) {
	resident_bytes += other.resident_bytes;
	peak_resident_bytes += other.peak_resident_bytes;
	threads += other.threads;
	cpu_seconds += other.cpu_seconds;
	voluntary_switches += other.voluntary_switches;
	involuntary_switches += other.involuntary_switches;
	return *this;
}

double cpu_seconds_in(const std::string& stat) {
	if (stat.rfind(')') == stat.npos) return 0;
	const char* at = stat.c_str() + stat.rfind(')') + 1;
	std::uint64_t ticks = 0;
	for (int field = 3; field <= 15; ++field) {
		while (*at == ' ') ++at;
		if (field >= 14) ticks += std::strtoull(at, nullptr, 10);
		while (*at != ' ' && *at != '\0') ++at;
	}
	return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t kernel_socket_bytes() {
	std::uint64_t bytes = 0;
	// "TCP    105    156   2368 ...": objects in use, objects, bytes of each
	std::ifstream slabs("/proc/slabinfo");
	for (std::string line; std::getline(slabs, line);) {
		std::istringstream words(line);
		std::string name;
		std::uint64_t used = 0, all = 0, each = 0;
		words >> name >> used >> all >> each;
		if (std::ranges::find(socket_slabs, name) != std::end(socket_slabs)) bytes += used * each;
	}
	// "TCP: inuse 4 orphan 0 tw 0 alloc 6 mem 177": pages
	std::ifstream sockets("/proc/net/sockstat");
	for (std::string line; std::getline(sockets, line);)
		if (const auto at = line.find(" mem "); line.starts_with("TCP:") && at != line.npos)
			bytes +=
				std::strtoull(line.c_str() + at + 5, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	return bytes;
}

ProcessUse use_of_process(pid_t process) {
	ProcessUse use;
	std::ifstream status(fmt::format("/proc/{}/status", process));
	for (std::string line; std::getline(status, line);) {
		if (line.starts_with("VmRSS:")) use.resident_bytes = number_of(line) * 1024;
		if (line.starts_with("VmHWM:")) use.peak_resident_bytes = number_of(line) * 1024;
		if (line.starts_with("Threads:")) use.threads = number_of(line);
	}
	std::uint64_t on_cpu_ns = 0;
	std::error_code gone;
	for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
		// schedstat: nanoseconds on a core, nanoseconds waiting for one, time slices. Not every
		// kernel has it.
		std::uint64_t on_cpu_of_thread_ns = 0;
		std::ifstream(thread.path() / "schedstat") >> on_cpu_of_thread_ns;
		on_cpu_ns += on_cpu_of_thread_ns;
		std::ifstream of_thread(thread.path() / "status");
		for (std::string line; std::getline(of_thread, line);) {
			if (line.starts_with("voluntary_ctxt_switches:")) use.voluntary_switches += number_of(line);
			if (line.starts_with("nonvoluntary_ctxt_switches:")) use.involuntary_switches += number_of(line);
		}
	}
	use.cpu_seconds = on_cpu_ns > 0 ? static_cast<double>(on_cpu_ns) / 1e9 : cpu_seconds_of(process);
	return use;
}

}  // namespace verbena::scale
