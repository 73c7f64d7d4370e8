// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "bench/table/histogram.h"

namespace verbena::bench {
namespace {

// Histograms of fewer buckets may agree by chance.
constexpr std::size_t many_buckets = 20;
// Times of two runs are hardly ever the same to this share.
constexpr double nearly = 1e-4;

struct Place {
	std::size_t row, repetition;  // from 0
	bool is_apart;
};

std::string words_of(const Place& place) {
	return fmt::format("repetition {}{}", place.repetition + 1, place.is_apart ? " apart" : "");
}

// The times of a repetition as a text; empty if it has none but 0.
std::string times_of(const Experiment& experiment, const Json& repetition) {
	std::string text;
	bool took_time = false;
	for (const std::string_view name : experiment.times) {
		const auto time = number_of(repetition, name);
		if (!time) continue;
		text += fmt::format("{} {} ", name, time->value);
		took_time |= time->value > 0;
	}
	return took_time ? text : "";
}

// Whether another repetition has the same number hardly ever by chance: it has six digits or more.
bool is_long(double number) {
	std::string digits = fmt::format("{}", number);
	digits.erase(std::min(digits.size(), digits.find('e')));
	std::erase(digits, '.');
	digits.erase(0, digits.find_first_not_of('0'));
	digits.erase(digits.find_last_not_of('0') + 1);
	return digits.size() >= 6;
}

// Each two long times, or longest latencies, of a repetition. A copy with one changed number still
// has the others.
void add_pairs(const Experiment& experiment, const Json& row, const Json& repetition, std::vector<std::string>& marks) {
	std::vector<std::pair<std::string, double>> numbers;
	const auto add = [&](const std::string& name) {
		const auto number = number_of(repetition, name);
		const auto same = [&](const auto& other) { return other.second == number->value; };
		// A time that stands there under two names is one.
		if (number && is_long(number->value) && std::ranges::none_of(numbers, same))
			numbers.emplace_back(name, number->value);
	};
	for (const std::string_view name : experiment.times) add(std::string(name));
	if (experiment.latencies != nullptr)
		for (const Latency& each : experiment.latencies(row)) add(fmt::format("{}max{}", each.prefix, each.suffix));
	for (std::size_t i = 0; i < numbers.size(); ++i)
		for (std::size_t k = i + 1; k < numbers.size(); ++k)
			marks.push_back(fmt::format(
				"{} {} and {} {}", numbers[i].first, numbers[i].second, numbers[k].first, numbers[k].second));
}

// The texts by which a repetition is recognized.
std::vector<std::string> marks_of(const Experiment& experiment, const Json& row, const Json& repetition) {
	std::vector<std::string> marks;
	if (std::string times = times_of(experiment, repetition); !times.empty()) marks.push_back(std::move(times));
	add_pairs(experiment, row, repetition, marks);
	if (experiment.latencies == nullptr) return marks;
	for (const Latency& each : experiment.latencies(row)) {
		const auto histogram = repetition.find(each.histogram);
		if (histogram == repetition.end() || !is_histogram(*histogram)) continue;
		if (const Json& buckets = histogram->at("buckets"); buckets.is_array() && buckets.size() >= many_buckets)
			marks.push_back(std::string(each.histogram) + buckets.dump());
	}
	return marks;
}

// The percentiles between the median and the longest as a text; empty if two of them are the same,
// or one is missing: few latencies have the same by chance.
std::string percentiles_of(const Experiment& experiment, const Json& row, const Json& repetition) {
	std::string text;
	if (experiment.latencies == nullptr) return text;
	for (const Latency& each : experiment.latencies(row)) {
		double before = 0;
		for (const char* name : {"p50", "p90", "p99", "p999", "p9999"}) {
			const auto number = number_of(repetition, fmt::format("{}{}{}", each.prefix, name, each.suffix));
			if (!number || number->value <= before) return {};
			before = number->value;
			text += fmt::format("{} ", before);
		}
	}
	return text;
}

// Whether all times of two repetitions are nearly the same.
bool is_nearly(const Experiment& experiment, const Json& one, const Json& other) {
	return std::ranges::all_of(experiment.times, [&](std::string_view name) {
		const auto a = number_of(one, name), b = number_of(other, name);
		return a.has_value() == b.has_value() && (!a || std::abs(a->value - b->value) <= nearly * a->value);
	});
}

// Finds the repetitions of a row that have all percentiles of an earlier one and nearly its times:
// each number of such a copy can be another one.
void examine_near_copies(const Experiment& experiment, const Json& row, Findings& findings) {
	std::unordered_multimap<std::string, std::size_t> known;
	const Json& list = row["repetitions"];
	for (std::size_t i = 0; i < list.size(); ++i) {
		std::string percentiles = percentiles_of(experiment, row, list[i]);
		if (percentiles.empty()) continue;
		const auto [first, last] = known.equal_range(percentiles);
		const auto found = std::find_if(
			first, last, [&](const auto& each) { return is_nearly(experiment, list[each.second], list[i]); });
		if (found != last)
			findings.invalid(fmt::format(
				"repetition {} has the percentiles of repetition {} and nearly its times", i + 1, found->second + 1));
		else known.emplace(std::move(percentiles), i);
	}
}

}  // namespace

void examine_copies(const Experiment& experiment, const Table& table, std::span<Findings> findings) {
	std::unordered_map<std::string, Place> known;
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		if (has_value(table.rows[i], "repetitions") && table.rows[i]["repetitions"].is_array())
			examine_near_copies(experiment, table.rows[i], findings[i]);
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		for (const char* list : {"repetitions", "apart"}) {
			const Json& row = table.rows[i];
			if (!has_value(row, list) || !row[list].is_array()) continue;
			for (std::size_t k = 0; k < row[list].size(); ++k) {
				const Place place{.row = i, .repetition = k, .is_apart = list == std::string_view("apart")};
				for (std::string& mark : marks_of(experiment, row, row[list][k])) {
					const auto [first, is_new] = known.emplace(std::move(mark), place);
					if (is_new) continue;
					const Place& other = first->second;
					findings[i].invalid(fmt::format("{} is a copy of {}{}", words_of(place), words_of(other),
						other.row == i ? "" : fmt::format(" of row {}", other.row + 1)));
					break;
				}
			}
		}
}

}  // namespace verbena::bench
