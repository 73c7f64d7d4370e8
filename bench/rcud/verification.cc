// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace verbena::rcud {
namespace {

using bench::three_digits;

std::string range(const std::vector<double>& values) {
	const auto [least, most] = std::ranges::minmax(values);
	const std::string low = three_digits(least), high = three_digits(most);
	return low == high ? low : low + " to " + high;
}

}  // namespace

std::string verification_cost(std::span<const bench::Json> rows) {
	std::vector<double> shares, costs;
	// The cost of a byte shows in the largest messages; in small ones it is less than the noise.
	double largest = 0;
	for (const bench::Json& row : rows) {
		const double with = bench::value_in(row, "mops"), without = bench::value_in(row, "mops_unverified");
		if (with == 0 || without == 0) continue;
		shares.push_back(100 * with / without);
		const double msg = bench::value_in(row, "msg");
		if (msg > largest) costs.clear();
		largest = std::max(largest, msg);
		if (msg == largest) costs.push_back(std::max(0.0, (1 / with - 1 / without) * 1e3 / msg));
	}
	if (shares.empty()) return "";
	return fmt::format("every byte of every message; the rate is {} % of that without, at {} B {} ns a byte more",
		range(shares), largest, range(costs));
}

}  // namespace verbena::rcud
