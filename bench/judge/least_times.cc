// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/least_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/judge/distance.h"

namespace verbena::bench {
namespace {

// A longer round trip was not one of a cache line: the processors did something else in between.
constexpr double distance_most_ns = 1000;
// The factor between the distances that two processors of one machine may have in one repetition.
constexpr double distances_apart = 8;

double least_distance_in(const Json& repetition) {
	double least = 0;
	for (const double trip : distances_in(repetition))
		if (trip <= distance_most_ns && (least == 0 || trip < least)) least = trip;
	return least;
}

}  // namespace

void examine_some_time(double ns, std::string_view what, Findings& findings) {
	if (ns <= 0) findings.invalid(fmt::format("{} that took no time", what));
}

void examine_answers(
	const Json& repetition, const Latency& names, double mean_ns, std::string_view what, Findings& findings) {
	examine_some_time(mean_ns, what, findings);
	const auto median = number_of(repetition, fmt::format("{}p50{}", names.prefix, names.suffix));
	const double ns = median ? std::min(mean_ns, median->value * names.unit_ns) : mean_ns;
	const double distance = least_distance_in(repetition);
	if (mean_ns <= 0 || alike_factor * ns >= distance) return;
	const std::string text = fmt::format("{} of {} ns, but a cache line takes {} ns to the other process and back",
		what, three_digits(ns), three_digits(distance));
	if (distances_apart * ns < distance) findings.invalid(text);
	else findings.suspect(text);
}

void examine_round_trips(
	const Json& repetition, double messages, double window, double elapsed_ns, Findings& findings) {
	const double distance = least_distance_in(repetition), needed_ns = messages * distance,
				 had_ns = window * elapsed_ns;
	if (needed_ns <= alike_factor * had_ns) return;
	const std::string text =
		fmt::format("{} messages in {} ms, of which {} were under way, but a cache line takes {} ns", messages,
			three_digits(elapsed_ns / 1e6), window, three_digits(distance));
	if (needed_ns > distances_apart * had_ns) findings.invalid(text);
	else findings.suspect(text);
}

void examine_pace(double count, std::string_view what, double elapsed_ns, Findings& findings, double most_per_ns) {
	if (count > most_per_ns * elapsed_ns)
		findings.invalid(fmt::format(
			"{} {} in {} ms are more than {} a nanosecond", count, what, three_digits(elapsed_ns / 1e6), most_per_ns));
}

}  // namespace verbena::bench
