// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/judge/distance.h"

namespace verbena::bench {
namespace {

constexpr const char* key = "cell";

template <class Visit> void for_each_repetition(const Json& row, Visit visit) {
	for (const char* list : {"repetitions", "apart"})
		if (has_value(row, list) && row[list].is_array())
			for (const Json& each : row[list]) visit(each);
}

struct Names {
	bool some = false, all = true;  // some repetition, or each one, names its cell
};

Names names_of(const Json& row) {
	Names names;
	for_each_repetition(
		row, [&](const Json& each) { (each.contains(key) ? names.some : names.all) = each.contains(key); });
	return names;
}

// Numbers that came into repetitions together with the names of their cells.
bool has_newer_number(const Json& row) {
	bool has = false;
	for_each_repetition(row, [&](const Json& each) {
		has |= each.contains("latencies") || each.contains("total_sum_ns") || each.contains("disconnect_sum_ns");
	});
	return has;
}

}  // namespace

void examine_cell_name(const Json& repetition, const std::string& title, Findings& findings) {
	if (!repetition.contains(key)) return;
	if (const std::string cell = repetition[key].get<std::string>(); cell != title)
		findings.invalid(fmt::format("it is one of the cell '{}'", cell));
}

void examine_cell_names(const Table& table, std::span<Findings> findings) {
	const bool some = std::ranges::any_of(table.rows, [](const Json& row) { return names_of(row).some; });
	const bool is_newer = !value_of(table.environment, distance_key).empty();
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		if (names_of(table.rows[i]).all) continue;
		if (some) findings[i].invalid("a repetition names no cell, but others of the table do");
		else if (is_newer || has_newer_number(table.rows[i]))
			findings[i].invalid("a repetition names no cell, but the table is not of an earlier version");
		else findings[i].remark("its repetitions name no cell, as those of earlier versions");
	}
}

std::string remark_on_cells(const Table& table) {
	const auto count = std::ranges::count_if(table.rows, [](const Json& row) { return !names_of(row).all; });
	if (count == 0) return {};
	return fmt::format(
		"{} rows have repetitions that name no cell, as those of earlier versions: nothing shows that "
		"they are of their row",
		count);
}

}  // namespace verbena::bench
