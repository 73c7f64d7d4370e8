// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/processor_time.h"

#include <fmt/format.h>

#include <charconv>

namespace verbena::bench {
namespace {

// The server's time is taken a little later than the client's.
constexpr double taken_late_s = 0.5;
constexpr double cores_most = 4096;
// No system sends and receives a message in less. The kernel counts time in steps of up to 10 ms,
// so only many operations show it.
constexpr double least_s_of_an_operation = 20e-9;
constexpr std::uint64_t many_operations = 20'000;

// The environment's `cores` begin with their number, as in "2, not pinned"; 0 if they do not.
double cores_of(const Environment& environment) {
	const std::string_view text = value_of(environment, "cores");
	double cores = 0;
	std::from_chars(text.data(), text.data() + text.size(), cores);
	return cores;
}

}  // namespace

void examine_processor_time(const Environment& environment, const ProcessorTime& time, Findings& findings) {
	const double cores = cores_of(environment);
	if (!(cores > 0 && cores <= cores_most) && !value_of(environment, "commit").empty())
		findings.invalid(
			fmt::format("the environment's cores '{}' begin with no number of cores", value_of(environment, "cores")));
	if (time.operations >= many_operations &&
		time.used_s < least_s_of_an_operation * static_cast<double>(time.operations))
		findings.invalid(
			fmt::format("{} s of processor time for {} operations", three_digits(time.used_s), time.operations));
	if (cores > 0 && time.used_s > 2 * cores * time.elapsed_s + taken_late_s)
		findings.invalid(fmt::format("{} s of processor time in {} s on {} cores", three_digits(time.used_s),
			three_digits(time.elapsed_s), cores));
}

}  // namespace verbena::bench
