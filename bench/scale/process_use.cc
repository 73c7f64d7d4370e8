#include "bench/scale/process_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace verbena::scale {
namespace {

// "VmRSS:     1234 kB" -> 1234
std::uint64_t number_of(const std::string& line) { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10); }

// User and system time in ticks of some milliseconds: the 14th and 15th field. The second is a name in brackets, which may have spaces.
double cpu_seconds_of(pid_t process) {
	std::ifstream stat(fmt::format("/proc/{}/stat", process));
	std::string line;
	if (!std::getline(stat, line) || line.rfind(')') == line.npos) return 0;
	const char* at = line.c_str() + line.rfind(')') + 1;
	std::uint64_t ticks = 0;
	for (int field = 3; field <= 15; ++field) {
		while (*at == ' ') ++at;
		if (field >= 14) ticks += std::strtoull(at, nullptr, 10);
		while (*at != ' ' && *at != '\0') ++at;
	}
	return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
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
		// Nanoseconds on a core, nanoseconds waiting for one, slices; not every kernel counts them.
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
