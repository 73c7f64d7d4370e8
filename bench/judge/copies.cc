// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "bench/table/histogram.h"

namespace verbena::bench {
namespace {

// Histograms of fewer buckets may agree by chance.
constexpr std::size_t many_buckets = 20;

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

}  // namespace

void examine_copies(const Experiment& experiment, const Table& table, std::span<Findings> findings) {
	std::unordered_map<std::string, Place> known;
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
