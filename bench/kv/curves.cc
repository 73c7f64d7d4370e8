// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "bench/kv/rows.h"

namespace verbena::kvbench {
namespace {

using bench::Findings;
using bench::Json;
using bench::Table;
using bench::word_of;

// Ratios: a row is too slow below `low`, and too fast for its protocol above `high`.
constexpr double low = 0.7, high = 1.5;
// A line through two points says something about sizes at most this factor away; between sizes that
// are further apart the curve bends.
constexpr double near = 4;

struct Point {
	double size, gigabytes;
	Findings* findings;
};
using Curve = std::vector<Point>;  // by size

// The throughput at another size on the straight line through two points, on logarithmic scales.
double expected_at(const Point& a, const Point& b, double size) {
	return a.gigabytes * std::pow(size / a.size, std::log(b.gigabytes / a.gigabytes) / std::log(b.size / a.size));
}

// Judges inner points first, so that both ends are compared with good points only. Outliers leave
// the curve.
void find_outliers(Curve& curve) {
	const auto is_outlier = [](const Point& point, const Point& a, const Point& b) {
		const auto [least, most] = std::ranges::minmax({point.size, a.size, b.size});
		const double between = point.size + a.size + b.size - least - most;
		if (between > near * least || most > near * between) return false;
		const double wanted = expected_at(a, b, point.size);
		if (point.gigabytes >= low * wanted) return false;
		point.findings->suspect(fmt::format("{:.1f} times slower than the curve through the sizes {} and {}",
			wanted / point.gigabytes, a.size, b.size));
		return true;
	};
	for (std::size_t i = 1; i + 1 < curve.size();) {
		if (is_outlier(curve[i], curve[i - 1], curve[i + 1]))
			curve.erase(curve.begin() + static_cast<std::ptrdiff_t>(i));
		else ++i;
	}
	if (curve.size() < 3) return;
	const std::size_t last = curve.size() - 1;
	if (is_outlier(curve[last], curve[last - 2], curve[last - 1])) curve.pop_back();
	if (curve.size() >= 3 && is_outlier(curve[0], curve[1], curve[2])) curve.erase(curve.begin());
}

// Compares the smallest size of rendezvous with both curves, extrapolated to it.
void find_mislabelled(const Curve& eager, Curve& rendezvous) {
	if (eager.size() < 2 || rendezvous.size() < 3) return;
	const Point& first = rendezvous.front();
	if (eager.back().size >= first.size) return;
	const double of_own = expected_at(rendezvous[1], rendezvous[2], first.size);
	const double of_eager = expected_at(eager[eager.size() - 2], eager.back(), first.size);
	const double ratio = first.gigabytes / of_eager;
	if (first.gigabytes < high * of_own || ratio < low || ratio > 1 / low) return;
	first.findings->mislabelled(fmt::format(
		"{:.1f} times the curve through the other sizes of rendezvous, and on the curve of eager: it was eager",
		first.gigabytes / of_own));
	rendezvous.erase(rendezvous.begin());
}

// The other columns that distinguish the curves.
std::string group_of(const Json& row) {
	std::string group;
	for (const bench::Column& column : experiment().columns)
		if (column.role == bench::Role::cell && column.name != "protocol" && column.name != "value_bytes")
			group += word_of(row, column.name) + ' ';
	return group;
}

}  // namespace

void examine_table(const Table& table, std::span<Findings> findings) {
	std::map<std::string, std::map<std::string, Curve>> curves;
	std::set<std::string> measured;  // groups of rows that count the protocol that they use
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const Json& row = table.rows[i];
		const auto size = bench::number_of(row, "value_bytes"),
				   gigabytes = bench::number_of(row, "gigabytes_per_second");
		// Rows of a sweep over another parameter have one size, so they form no curve.
		if (findings[i].is_invalid() || bench::has_value(row, "varied") || !size || !gigabytes || size->value <= 0 ||
			gigabytes->value <= 0)
			continue;
		const std::string group = group_of(row);
		curves[group][word_of(row, "protocol")].push_back({size->value, gigabytes->value, &findings[i]});
		if (bench::has_value(row, "repetitions")) measured.insert(group);
	}
	for (auto& [group, by_protocol] : curves) {
		for (auto& [protocol, curve] : by_protocol) std::ranges::sort(curve, {}, &Point::size);
		// The order matters: each step compares rows with curves that have no outliers any more.
		find_outliers(by_protocol["eager"]);
		if (!measured.contains(group)) find_mislabelled(by_protocol["eager"], by_protocol["rendezvous"]);
		for (auto& [protocol, curve] : by_protocol)
			if (protocol != "eager") find_outliers(curve);
	}
}

std::string remark_on_protocols(const Table& table) {
	std::map<std::string, std::set<std::string>> protocols;
	for (const Json& row : table.rows)
		if (!is_rival(row) && !bench::has_value(row, "varied"))
			protocols[word_of(row, "op") + ' ' + word_of(row, "value_bytes")].insert(word_of(row, "protocol"));
	if (std::ranges::any_of(protocols, [](const auto& each) { return each.second.size() > 1; })) return "";
	return "no size has both protocols, so the table cannot show which one is faster";
}

}  // namespace verbena::kvbench
