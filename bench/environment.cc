#include "bench/environment.h"

#include <sys/utsname.h>

#include <ctime>
#include <fstream>

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

}  // namespace verbena::bench
