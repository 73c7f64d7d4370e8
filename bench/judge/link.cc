// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "bench/judge/kind.h"

namespace verbena::bench {

double link_gigabits(const Environment& environment) {
	if (!is_called_hardware(environment)) return 0;
	const std::string said = said_of(environment, "link");
	const std::string_view link = said;
	const auto unit = std::min(link.find(" gb/s"), link.find(" gbit/s"));
	if (unit == link.npos) return 0;
	const auto from = link.substr(0, unit).find_last_of(' ') + 1;
	double rate = 0;
	std::from_chars(link.data() + from, link.data() + unit, rate);
	return rate;
}

void examine_link(const Environment& environment, double payload_gigabits, Findings& findings) {
	const double rate = link_gigabits(environment);
	if (rate > 0 && payload_gigabits > rate)
		findings.invalid(
			fmt::format("{} Gb/s of payload is more than the link's {} Gb/s", three_digits(payload_gigabits), rate));
}

}  // namespace verbena::bench
