// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/device.h"

#include <fmt/format.h>

#include "base/sizes.h"
#include "bench/environment.h"
#include "bench/far_end/launch.h"
#include "bench/rpc/labels.h"
#include "bench/rpc/registration.h"

namespace verbena::rpcbench {
namespace {

// "key\tvalue\n" for each entry.
std::string device_text(bool registration) {
	const auto device = lib::open_best({.both_ends_on_this_host = true});
	if (!device) return {};
	std::string text = fmt::format("device\t{}\nkind\t{}\nlink\t{}{}\n", device->choice.device,
		device->choice.software ? "software" : "hardware", lib::link_text(*device), bench::between(""));
	if (!registration) return text;
	constexpr std::size_t sizes[] = {4 << 10, 32 << 10, 256 << 10, 1 << 20};
	if (const auto costs = measure_registration(*device, sizes))
		for (const RegistrationCost& cost : *costs)
			text += fmt::format("registration {}\t{:.2f} us to register and deregister, {:.2f} us to copy\n",
				size_text(cost.bytes), cost.register_us, cost.copy_us);
	return text;
}

}  // namespace

bench::Environment describe_device(bool registration) {
	const std::string text = bench::text_of_child([=] { return device_text(registration); });
	bench::Environment environment;
	for (const std::string_view line : split(text, '\n'))
		if (const auto tab = line.find('\t'); tab != line.npos)
			environment.emplace_back(line.substr(0, tab), line.substr(tab + 1));
	return environment;
}

}  // namespace verbena::rpcbench
