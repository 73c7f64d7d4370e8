// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/environment_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/statistics.h"
#include "bench/judge/distance.h"

namespace verbena::bench {
namespace {

constexpr const char* round_trip_key = "core_to_core_ns";

// The number behind --reps in the command; 0 if it is not there, because the default may change.
std::size_t repetitions_asked_for(std::string_view command) {
	constexpr std::string_view option = "--reps";
	std::size_t asked = 0;
	for (auto at = command.find(option); at != command.npos; at = command.find(option, at + 1)) {
		const std::string_view rest = command.substr(at + option.size());
		if (rest.empty() || (rest.front() != ' ' && rest.front() != '=')) continue;
		std::from_chars(rest.data() + 1, rest.data() + rest.size(), asked);
	}
	return asked;
}

std::span<const Json> list_of(const Json& row, const char* list) {
	if (!has_value(row, list) || !row[list].is_array()) return {};
	return row[list].get_ref<const Json::array_t&>();
}

void examine_command(const Table& table, std::span<Findings> findings) {
	const std::size_t asked = repetitions_asked_for(value_of(table.environment, "command"));
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const std::size_t counted = list_of(table.rows[i], "repetitions").size(),
						  measured = counted + list_of(table.rows[i], "apart").size();
		if (counted > 0 && measured < asked && !findings[i].is_invalid())
			findings[i].suspect(fmt::format("{} repetitions, but the command asked for {}", measured, asked));
	}
}

// Words in the place of a distance would switch the rules about it off.
void examine_stated(const Table& table, std::span<Findings> findings) {
	for (const char* key : {distance_key, round_trip_key})
		if (!value_of(table.environment, key).empty() && !stated_number(table.environment, key))
			for (Findings& each : findings) each.invalid(fmt::format("{} in the environment is no number", key));
}

// Repetitions are apart because of the distance of the sweep, so some repetition that counts has
// it: at a distance that nothing has, any repetition could be set apart.
void examine_sweep(const Table& table, std::span<Findings> findings) {
	const auto stated = stated_number(table.environment, distance_key);
	if (!stated) return;
	const bool is_true = std::ranges::any_of(table.rows, [&](const Json& row) {
		return std::ranges::any_of(list_of(row, "repetitions"), [&](const Json& each) {
			return std::ranges::any_of(distances_in(each), [&](double trip) { return alike(trip, stated->value); });
		});
	});
	for (std::size_t i = 0; !is_true && i < table.rows.size(); ++i)
		if (!list_of(table.rows[i], "apart").empty())
			findings[i].invalid(
				fmt::format("repetitions are apart, but none counts at the {} ns that the environment gives the sweep",
					three_digits(stated->value)));
}

// The environment has the median of all round trips that count.
void examine_distance(const Table& table, std::span<Findings> findings) {
	const auto stated = stated_number(table.environment, round_trip_key);
	std::vector<double> trips;
	for (const Json& row : table.rows)
		for (const Json& each : list_of(row, "repetitions"))
			for (const double trip : distances_in(each)) trips.push_back(trip);
	if (!stated || stated->value == 0 || trips.empty()) return;
	const double measured = median(std::move(trips));
	if (alike(stated->value, measured)) return;
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		if (!findings[i].is_invalid() && !list_of(table.rows[i], "repetitions").empty())
			findings[i].suspect(
				fmt::format("a cache line takes {} ns between the processors, but the environment says {}",
					three_digits(measured), three_digits(stated->value)));
}

}  // namespace

void examine_environment(const Table& table, std::span<Findings> findings) {
	examine_command(table, findings);
	examine_stated(table, findings);
	examine_sweep(table, findings);
	examine_distance(table, findings);
}

std::string remark_on_environment(const Table& table) {
	if (std::ranges::all_of(table.rows, [](const Json& row) { return list_of(row, "repetitions").empty(); })) return {};
	std::string missing;
	for (const char* key : {"cpu", "cores", "kernel", "commit", "date", "command"})
		if (value_of(table.environment, key).empty()) missing += std::string(missing.empty() ? "" : ", ") + key;
	return missing.empty() ? "" : "the environment lacks " + missing + ": nothing shows where and how it was measured";
}

}  // namespace verbena::bench
