// SPDX-License-Identifier: Apache-2.0
// Statistics of a few repeated measurements: the median, its confidence interval, the spread.
//
// Threads: pure functions.
// Errors: an empty span is our own bug (check).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"

namespace verbena {

inline double median(std::span<const double> values) {
	check(!values.empty(), "the median of nothing");
	std::vector<double> sorted(values.begin(), values.end());
	std::ranges::sort(sorted);
	const std::size_t middle = sorted.size() / 2;
	return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

struct Interval {
	double low;
	double high;
	friend bool operator==(const Interval&, const Interval&) = default;
};

// The 95 % confidence interval of the median by order statistics: the narrowest pair (k-th
// smallest, k-th largest) that covers the median with a probability of at least 95 %, whatever the
// distribution is. The coverage is 1 - 2 P(Binomial(n, 1/2) < k). With fewer than six values no
// pair reaches 95 %; then the result is the whole range, which covers with 1 - 2^(1-n): 93.75 % for
// five values, 75 % for three.
inline Interval median_interval(std::span<const double> values) {
	check(!values.empty(), "the interval of nothing");
	std::vector<double> sorted(values.begin(), values.end());
	std::ranges::sort(sorted);
	const std::size_t n = sorted.size();

	std::size_t k = 1;
	double term = std::pow(0.5, static_cast<double>(n));  // P(Binomial = 0)
	double below = term;          // P(Binomial < k)
	while (2 * (k + 1) <= n) {
		term *= static_cast<double>(n - k + 1) / static_cast<double>(k);  // P(Binomial = k)
		if (1 - 2 * (below + term) < 0.95) break;
		below += term;
		++k;
	}
	return {sorted[k - 1], sorted[n - k]};
}

// (largest - smallest) / median; 0 when the median is 0.
inline double spread(std::span<const double> values) {
	const auto [low, high] = std::ranges::minmax(values);
	const double middle = median(values);
	return middle == 0 ? 0 : (high - low) / middle;
}

}  // namespace verbena
