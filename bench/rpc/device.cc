#include "bench/rpc/device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/sizes.h"
#include "bench/rpc/labels.h"
#include "bench/rpc/registration.h"

namespace verbena::rpcbench {
namespace {

// Prints "key\tvalue" for each entry.
void print_device(std::FILE* to, bool registration) {
	const auto device = lib::open_best({.both_ends_on_this_host = true});
	if (!device) return;
	std::string link = device->ethernet() ? "Ethernet" : "InfiniBand";
	if (const std::string rate = lib::rate_text(device->port); !rate.empty() && !device->choice.software)
		link += ", " + rate;
	fmt::print(to, "device\t{}\nkind\t{}\nlink\t{}, two processes on one host\n", device->choice.device,
		device->choice.software ? "software" : "hardware", link);
	if (!registration) return;
	constexpr std::size_t sizes[] = {4 << 10, 32 << 10, 256 << 10, 1 << 20};
	if (const auto costs = measure_registration(*device, sizes))
		for (const RegistrationCost& cost : *costs)
			fmt::print(to, "registration {}\t{:.2f} us to register and deregister, {:.2f} us to copy\n",
				size_text(cost.bytes), cost.register_us, cost.copy_us);
}

std::string read_all(int from) {
	std::string text;
	char part[4096];
	for (ssize_t count; (count = read(from, part, sizeof part)) > 0;)
		text.append(part, static_cast<std::size_t>(count));
	return text;
}

}  // namespace

bench::Environment describe_device(bool registration) {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return {};
	const pid_t child = fork();
	if (child == 0) {
		if (std::FILE* const to = fdopen(ends[1], "w")) {
			print_device(to, registration);
			std::fclose(to);
		}
		std::_Exit(0);
	}
	close(ends[1]);
	const std::string text = child < 0 ? "" : read_all(ends[0]);
	close(ends[0]);
	if (child > 0) waitpid(child, nullptr, 0);
	bench::Environment environment;
	for (const std::string_view line : split(text, '\n'))
		if (const auto tab = line.find('\t'); tab != line.npos)
			environment.emplace_back(line.substr(0, tab), line.substr(tab + 1));
	return environment;
}

}  // namespace verbena::rpcbench
