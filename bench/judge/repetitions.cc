// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "bench/table/histogram.h"

namespace verbena::bench {
namespace {

struct Percentile {
	std::string_view name;
	double fraction;
};
constexpr Percentile percentiles[] = {
	{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}, {"max", 1}};

std::string column_of(const Latency& names, const Percentile& percentile) {
	return fmt::format("{}{}{}", names.prefix, percentile.name, names.suffix);
}

Json value_of(const Histogram& latency, const Percentile& percentile, const Latency& names) {
	if (latency.count() == 0) return nullptr;
	return static_cast<double>(latency.quantile(percentile.fraction)) / names.unit_ns;
}

// Throws the exception that callers expect from at().
const Json& absent(std::string_view name) { return Json::object().at(std::string(name)); }

}  // namespace

std::uint64_t count_in(const Json& repetition, std::string_view name) {
	const Json& value = repetition.at(std::string(name));
	const bool is_count = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
	return is_count ? value.get<std::uint64_t>() : absent(name).get<std::uint64_t>();
}

double number_in(const Json& repetition, std::string_view name) {
	repetition.at(std::string(name));
	const auto number = number_of(repetition, name);
	return number ? number->value : absent(name).get<double>();
}

std::vector<double> numbers_in(const Json& repetitions, std::string_view name) {
	std::vector<double> values;
	for (const Json& each : repetitions)
		if (!each.at(std::string(name)).is_null()) values.push_back(number_in(each, name));
	return values;
}

void add_median(Json& summary, const std::string& name, const std::vector<double>& values) {
	add_plain_median(summary, name, values);
	const Interval interval = values.empty() ? Interval{} : median_interval(values);
	summary[name + "_low"] = values.empty() ? Json(nullptr) : Json(interval.low);
	summary[name + "_high"] = values.empty() ? Json(nullptr) : Json(interval.high);
}

void add_plain_median(Json& summary, const std::string& name, const std::vector<double>& values) {
	summary[name] = values.empty() ? Json(nullptr) : Json(median(values));
}

void add_latency(Json& repetition, const Histogram& latency, const Latency& names) {
	for (const Percentile& each : percentiles) repetition[column_of(names, each)] = value_of(latency, each, names);
	repetition[std::string(names.histogram)] = to_json(latency);
}

void summarize_latency(Json& summary, const Json& repetitions, const Latency& names) {
	const std::string key(names.histogram);
	if (std::ranges::none_of(repetitions, [&](const Json& each) { return each.contains(key); })) return;
	Histogram latency;
	for (const Json& each : repetitions)
		if (const auto one = histogram_of(each.at(key))) latency.merge(*one);
	for (const Percentile& each : percentiles) summary[column_of(names, each)] = value_of(latency, each, names);
}

std::optional<Histogram> examine_latency(const Json& repetition, const Latency& names, Findings& findings) {
	const auto json = repetition.find(std::string(names.histogram));
	if (json == repetition.end()) {
		examine_percentiles(repetition, names, findings);
		return {};
	}
	const auto latency = histogram_of(*json);
	if (!latency) {
		findings.invalid(fmt::format("{} is no histogram: {}", names.histogram, latency.error()));
		return {};
	}
	for (const Percentile& each : percentiles) {
		const std::string column = column_of(names, each);
		const Json given = value_of(*latency, each, names);
		if (repetition.at(column) != given)
			findings.invalid(
				fmt::format("{} is {}, but the histogram gives {}", column, repetition[column].dump(), given.dump()));
	}
	return *latency;
}

void examine_presence(const Json& repetition, const Latency& names, Findings& findings) {
	const bool has_percentiles = std::ranges::any_of(
		percentiles, [&](const Percentile& each) { return repetition.contains(column_of(names, each)); });
	if (has_percentiles && !repetition.contains(names.histogram))
		findings.invalid(fmt::format("there is no histogram {} of its latencies", names.histogram));
}

void examine_percentiles(const Json& row, const Latency& names, Findings& findings) {
	std::string lower_name;
	double lower = 0;
	for (const Percentile& each : percentiles) {
		const std::string column = column_of(names, each);
		const auto claimed = number_of(row, column);
		if (claimed) {
			if (!lower_name.empty() && claimed->value < lower)
				findings.invalid(fmt::format("{} is below {}", column, lower_name));
			lower_name = column;
			lower = claimed->value;
		}
		if (!has_value(row, "repetitions")) continue;
		std::vector<double> values;
		for (const Json& one : row["repetitions"])
			if (const auto value = number_of(one, column)) values.push_back(value->value);
		if (!claimed && values.empty()) continue;
		// A percentile is the last value of its bucket, but at most the maximum, which is exact.
		// So the percentile of all repetitions together may be above those of each by the width of
		// a bucket.
		const bool is_max = each.fraction == 1;
		if (!claimed || values.empty() ||
			claimed->value < (is_max ? std::ranges::max(values) : std::ranges::min(values)) ||
			claimed->value > (is_max ? 1 : 1 + Histogram::bucket_width) * std::ranges::max(values))
			findings.invalid(fmt::format("{} is not between those of the repetitions", column));
	}
}

double mean_of(const Histogram& latency) {
	if (latency.count() == 0) return 0;
	double sum = 0;
	latency.for_each([&](std::uint64_t last, std::uint64_t count) {
		sum += static_cast<double>(std::min(last, latency.max())) * static_cast<double>(count);
	});
	return sum / static_cast<double>(latency.count());
}

}  // namespace verbena::bench
