// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/environment_rules.h"

#include <fmt/format.h>

#include <charconv>

#include "base/statistics.h"
#include "bench/judge/distance.h"

namespace verbena::bench {
namespace {

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

// The environment has the median of all round trips that count.
void examine_distance(const Table& table, std::span<Findings> findings) {
	Json environment = Json::object();
	environment["distance"] = value_of(table.environment, "core_to_core_ns");
	const auto stated = number_of(environment, "distance");
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
	examine_distance(table, findings);
}

}  // namespace verbena::bench
