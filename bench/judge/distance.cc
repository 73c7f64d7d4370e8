// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/distance.h"

#include <algorithm>
#include <string>

namespace verbena::bench {
namespace {

bool has_failed(const Json& repetition) {
	const auto failure = repetition.find("failure");
	return failure != repetition.end() && *failure != "";
}

}  // namespace

std::vector<double> distances_in(const Json& repetition) {
	std::vector<double> found;
	for (const char* name : {"rtt_before_ns", "rtt_after_ns", "round_trip_ns", "core_to_core_ns"})
		if (const auto trip = number_of(repetition, name); trip && trip->value > 0) found.push_back(trip->value);
	return found;
}

bool is_at(const Json& repetition, double distance_ns) {
	return distance_ns == 0 || has_failed(repetition) ||
		std::ranges::all_of(distances_in(repetition), [&](double trip) { return alike(trip, distance_ns); });
}

double common_distance(std::vector<double> distances_ns) {
	std::ranges::sort(distances_ns);
	double common = 0;
	std::size_t most = 0;
	for (const double each : distances_ns) {
		const auto first = std::ranges::lower_bound(distances_ns, each / alike_factor);
		const auto last = std::ranges::upper_bound(distances_ns, each * alike_factor);
		if (const auto count = static_cast<std::size_t>(last - first); count > most) {
			most = count;
			common = each;
		}
	}
	return common;
}

Parted part(const Json& repetitions, double distance_ns, std::size_t wanted) {
	Parted parted;
	for (const Json& each : repetitions) (is_at(each, distance_ns) ? parted.together : parted.apart).push_back(each);
	if (parted.together.size() >= 2) return parted;
	parted = {};
	for (const Json& each : repetitions)
		(parted.together.size() < wanted ? parted.together : parted.apart).push_back(each);
	return parted;
}

}  // namespace verbena::bench
