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

// The texts by which a repetition is recognized.
std::vector<std::string> marks_of(const Experiment& experiment, const Json& row, const Json& repetition) {
	std::vector<std::string> marks;
	if (std::string times = times_of(experiment, repetition); !times.empty()) marks.push_back(std::move(times));
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
