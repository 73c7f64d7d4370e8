// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/cells.h"

#include <gtest/gtest.h>

#include "bench/judge/distance.h"

namespace verbena::bench {
namespace {

Json row_of_cells(std::initializer_list<const char*> cells) {
	Json row{{"repetitions", Json::array()}, {"apart", Json::array()}};
	for (const char* each : cells)
		row["repetitions"].push_back(each == nullptr ? Json::object() : Json{{"cell", each}});
	return row;
}

TEST(Cells, ARepetitionOfAnotherCellIsInvalid) {
	Findings none, same, other;
	examine_cell_name(Json::object(), "RC 64 B", none);
	examine_cell_name({{"cell", "RC 64 B"}}, "RC 64 B", same);
	examine_cell_name({{"cell", "UD 64 B"}}, "RC 64 B", other);
	EXPECT_EQ(none.verdict().reason + same.verdict().reason, "");
	EXPECT_EQ(other.verdict().validity, Validity::invalid);
	EXPECT_EQ(other.verdict().reason, "it is one of the cell 'UD 64 B'");
	EXPECT_THROW(examine_cell_name({{"cell", 7}}, "RC 64 B", other), Json::exception);
}

TEST(Cells, AreNamedByAllRepetitionsOrByNone) {
	const auto verdict_of_last = [](const std::vector<Json>& rows) {
		std::vector<Findings> findings(rows.size());
		examine_cell_names({.rows = rows}, findings);
		return findings.back().verdict();
	};
	EXPECT_EQ(verdict_of_last({row_of_cells({"a", "a"}), row_of_cells({"b"})}).reason, "");
	EXPECT_EQ(verdict_of_last({row_of_cells({"a"}), row_of_cells({})}).reason, "");
	EXPECT_EQ(verdict_of_last({row_of_cells({"a"}), row_of_cells({"b", nullptr})}).validity, Validity::invalid);
	EXPECT_EQ(verdict_of_last({row_of_cells({"a"}), row_of_cells({nullptr})}).validity, Validity::invalid);
	EXPECT_EQ(verdict_of_last({row_of_cells({nullptr}), row_of_cells({nullptr})}).validity, Validity::valid);
	EXPECT_NE(verdict_of_last({row_of_cells({nullptr})}).reason, "") << "earlier versions named none";
}

// The names were deleted, so that two rows could exchange their repetitions.
TEST(Cells, AreNamedByAllTablesOfVersionsThatNameThem) {
	const auto validity_of = [](const Environment& environment, const char* newer) {
		Json row = row_of_cells({nullptr});
		if (*newer != '\0') row["repetitions"][0][newer] = 7;
		std::vector<Findings> findings(1);
		examine_cell_names({.environment = environment, .rows = {row}}, findings);
		return findings[0].verdict().validity;
	};
	EXPECT_EQ(validity_of({{"commit", "1"}}, "p50_us"), Validity::valid);
	EXPECT_EQ(validity_of({{distance_key, "97"}}, ""), Validity::invalid);
	for (const char* each : {"latencies", "total_sum_ns", "disconnect_sum_ns"})
		EXPECT_EQ(validity_of({}, each), Validity::invalid) << each;
}

TEST(Cells, ATableWithoutTheirNamesSaysSo) {
	EXPECT_EQ(remark_on_cells({.rows = {row_of_cells({"a"}), {{"size", 1}}}}), "");
	EXPECT_EQ(remark_on_cells({.rows = {row_of_cells({nullptr}), row_of_cells({"a"})}}),
		"1 rows have repetitions that name no cell, as those of earlier versions: nothing shows that they are of their "
		"row");
}

}  // namespace
}  // namespace verbena::bench
