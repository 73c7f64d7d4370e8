// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/means.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace verbena::bench {
namespace {

// For sums and quotients of numbers that are written with all their digits.
constexpr double nearly = 1e-6;

}  // namespace

Bounds mean_by_percentiles(const Json& row, const Latency& names) {
	constexpr std::pair<const char*, double> above[] = {
		{"p50", 0.5}, {"p90", 0.1}, {"p99", 0.01}, {"p999", 0.001}, {"p9999", 0.0001}, {"max", 0}};
	Bounds bounds;
	double before = 0, share_before = 1;
	for (const auto& [name, share] : above) {
		const auto percentile = number_of(row, fmt::format("{}{}{}", names.prefix, name, names.suffix));
		if (!percentile) continue;
		const double step = std::max(0.0, percentile->value - before);
		bounds.least += step * share;
		bounds.most += step * share_before;
		before = percentile->value;
		share_before = share;
	}
	bounds.least *= 1 - Histogram::bucket_width;
	if (share_before > 0) bounds.most = std::numeric_limits<double>::infinity();
	return bounds;
}

void examine_mean(const Json& row, double mean, const Latency& names, Findings& findings) {
	const Bounds bounds = mean_by_percentiles(row, names);
	if (mean >= bounds.least * (1 - nearly) && mean <= bounds.most * (1 + nearly)) return;
	const std::string_view unit = names.suffix.substr(1);
	findings.invalid(fmt::format("a mean of {} {}, but {}p50{} and above give {} to {} {}", three_digits(mean), unit,
		names.prefix, names.suffix, three_digits(bounds.least),
		std::isinf(bounds.most) ? "any" : three_digits(bounds.most), unit));
}

void examine_maximum(const Json& row, const Latency& names, Findings& findings) {
	const std::string column = fmt::format("{}max{}", names.prefix, names.suffix);
	if (!has_value(row, column)) findings.invalid(fmt::format("there is no {}", column));
}

}  // namespace verbena::bench
