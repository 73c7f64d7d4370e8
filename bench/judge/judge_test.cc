// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/judge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/judge/fixture.h"
#include "bench/judge/repetitions.h"

namespace verbena::bench {
namespace {

using testing_tools::sums;

Json row(int size, std::vector<double> rates) {
	Json repetitions = Json::array();
	double sum = 0;
	for (const double rate : rates) repetitions.push_back({{"rate", rate}}), sum += rate;
	return {{"size", size}, {"rate", sum}, {"kind", "sum"}, {"repetitions", repetitions}};
}

Verdict judged(const Json& one) { return judge(sums, {.rows = {one}})->front(); }

TEST(Judge, ARowThatFollowsFromItsRepetitionsIsValid) {
	EXPECT_EQ(judged(row(8, {1, 2})).validity, Validity::valid);
	EXPECT_EQ(judged(row(8, {1, 2})).reason, "");
}

TEST(Judge, AVerdictThatStandsInTheFileIsNotBelieved) {
	Json forged = row(8, {1, 2});
	forged["rate"] = 30;
	forged["validity"] = "valid";
	EXPECT_EQ(judged(forged).validity, Validity::invalid);
	EXPECT_EQ(judged(forged).reason, "rate is 30, but the repetitions give 3.0");
	Json slandered = row(8, {1, 2});
	slandered["validity"] = "invalid";
	slandered["reason"] = "so they say";
	EXPECT_EQ(judged(slandered).validity, Validity::valid);
	EXPECT_EQ(judged(slandered).reason, "");
}

TEST(Judge, EachFigureIsComparedWithItsRepetitions) {
	Json forged = row(8, {1, 2});
	forged["kind"] = "product";
	EXPECT_EQ(judged(forged).reason, "kind is product, but the repetitions give sum");
	forged = row(8, {1, 2});
	forged["rate"] = nullptr;
	EXPECT_EQ(judged(forged).reason, "rate is nothing, but the repetitions give 3.0");
}

TEST(Judge, AFailedRepetitionIsNamed) {
	Json failed = row(8, {1, 2});
	failed["repetitions"][1]["failure"] = "the other process ended";
	EXPECT_EQ(judged(failed).reason, "repetition 2: the other process ended");
}

TEST(Judge, OnlyAnotherDistanceIsAReasonToSetARepetitionApart) {
	Json parted = row(8, {1, 2});
	parted["repetitions"][0]["core_to_core_ns"] = 97;
	parted["repetitions"][1]["core_to_core_ns"] = 91;
	parted["apart"] = {{{"rate", 0.3}, {"core_to_core_ns", 390}}};
	EXPECT_EQ(judged(parted).validity, Validity::valid);
	EXPECT_EQ(judged(parted).reason, "1 more at another distance between the processors, apart");
	Json hidden = parted;
	hidden["apart"][0]["core_to_core_ns"] = 95;
	EXPECT_EQ(judged(hidden).validity, Validity::invalid);
	EXPECT_EQ(judged(hidden).reason,
		"1 more at another distance between the processors, apart; repetition 1 apart was measured at the distance of "
		"the others");
	hidden["apart"][0].erase("core_to_core_ns");
	EXPECT_EQ(judged(hidden).validity, Validity::invalid);
	hidden["apart"][0] = parted["repetitions"][0];
	EXPECT_EQ(judged(hidden).validity, Validity::invalid);
	hidden["apart"] = {7};
	EXPECT_EQ(judged(hidden).validity, Validity::invalid);
	hidden["apart"] = "none";
	EXPECT_EQ(judged(hidden).reason, "apart is not a list");
}

// The slow ones count, and the fast ones of another distance were put in their place.
TEST(Judge, ARepetitionAtAnotherDistanceCannotCount) {
	Json swapped = row(8, {1, 2, 3});
	for (Json& each : swapped["repetitions"]) each["core_to_core_ns"] = 97;
	swapped["apart"] = {{{"rate", 0.3}, {"core_to_core_ns", 390}}, {{"rate", 0.4}, {"core_to_core_ns", 391}}};
	Json other = row(16, {4, 5, 6});
	for (Json& each : other["repetitions"]) each["core_to_core_ns"] = 392;
	EXPECT_EQ((*judge(sums, {.rows = {other, swapped}}))[1].reason,
		"2 more at another distance between the processors, apart; repetition 1 counts, but was measured at another "
		"distance; repetition 2 counts, but was measured at another distance; repetition 3 counts, but was measured at "
		"another distance; repetition 1 apart was measured at the distance of the others; repetition 2 apart was "
		"measured "
		"at the distance of the others");
}

// The commonest distance of a part is another one than that of the whole.
TEST(Judge, APartOfATableIsJudgedAtTheDistanceOfTheSweep) {
	Json kept = row(8, {1, 2});
	for (Json& each : kept["repetitions"]) each["core_to_core_ns"] = 97;
	kept["apart"] = Json::array();
	for (const double trip : {390, 391, 392}) kept["apart"].push_back({{"rate", 0.3}, {"core_to_core_ns", trip}});
	EXPECT_EQ(judged(kept).validity, Validity::invalid);
	EXPECT_EQ(judge(sums, {.environment = {{"sweep_distance_ns", "95.2"}}, .rows = {kept}})->front().validity,
		Validity::valid);
}

// A message quoted 32 MiB of the file.
TEST(Judge, AReasonQuotesLittleOfAFile) {
	Json forged = row(8, {1, 2});
	forged["kind"] = std::string(60'000, 'x');
	const std::string reason = judged(forged).reason;
	EXPECT_TRUE(reason.starts_with("kind is xxx")) << reason;
	EXPECT_LE(reason.size(), reason_bytes_max + 3);
}

TEST(Judge, AFailureCannotBeSetApart) {
	Json failed = row(8, {1, 2});
	for (Json& each : failed["repetitions"]) each["core_to_core_ns"] = 97;
	failed["apart"] = {{{"rate", 0.3}, {"core_to_core_ns", 390}, {"failure", "the other process ended"}}};
	EXPECT_EQ(judged(failed).validity, Validity::invalid);
}

TEST(Judge, ARepetitionWithoutItsNumbersIsInvalidAndEndsNothing) {
	for (const Json& strange : {Json(1), Json("x"), Json::object(), Json{{"rate", "fast"}}, Json(nullptr)}) {
		Json broken = row(8, {1, 2});
		broken["repetitions"][0] = strange;
		EXPECT_EQ(judged(broken).validity, Validity::invalid) << strange;
	}
}

TEST(Judge, OurRowsHaveRepetitionsAndPublishedOnesHaveNot) {
	Json bare = row(8, {1, 2});
	bare.erase("repetitions");
	EXPECT_EQ(judged(bare).validity, Validity::invalid) << "`kind` is no published column";
	bare.erase("kind");
	EXPECT_EQ(judged(bare).validity, Validity::valid);
	EXPECT_EQ(judge(sums, {.environment = {{"commit", "1234"}}, .rows = {bare}})->front().validity, Validity::invalid);
	bare["repetitions"] = Json::array();
	EXPECT_EQ(judged(bare).validity, Validity::invalid);
	bare["repetitions"] = "none";
	EXPECT_EQ(judged(bare).validity, Validity::invalid);
}

// A file that had lost its repetitions and the line of its commit was valid with any figures.
TEST(Judge, ATableThatWasStrippedOfItsEvidenceIsInvalidByAnyLineThatOursHave) {
	const Json bare{{"size", "8"}, {"rate", "3"}};
	const auto validity = [&](const char* name) {
		return judge(sums, {.environment = {{name, "x"}}, .rows = {bare}})->front().validity;
	};
	for (const char* name :
		{"commit", "Commit", "command", "settings", "device", "core_to_core_ns", "peer_kind", "date"})
		EXPECT_EQ(validity(name), Validity::invalid) << name;
	EXPECT_EQ(validity("note"), Validity::valid);
}

TEST(Judge, ATableWithoutEvidenceSaysThatItHasNone) {
	const Json bare{{"size", "8"}, {"rate", "3"}}, none{{"size", "8"}, {"rate", "n/a"}};
	EXPECT_EQ(remark_on(sums, {.rows = {bare}}), no_evidence);
	EXPECT_EQ(remark_on(sums, {.rows = {none}}), "");
	EXPECT_EQ(remark_on(sums, {.environment = {{"commit", "1234"}}, .rows = {bare}}), "") << "the row is invalid";
}

TEST(Judge, ARowWithoutFiguresIsNotApplicable) {
	const Json none{{"size", 8}, {"rate", nullptr}, {"reason", "too long"}, {"repetitions", Json::array()}};
	EXPECT_EQ(judged(none).validity, Validity::not_applicable);
	EXPECT_EQ(judged(none).reason, "too long");
	EXPECT_EQ(judged({{"size", "8"}, {"rate", "n/a"}}).validity, Validity::not_applicable);
	Json hidden = row(8, {1, 2});
	hidden["rate"] = hidden["kind"] = nullptr;
	EXPECT_EQ(judged(hidden).validity, Validity::invalid);
}

TEST(Judge, ValuesAreFiniteNumbersOfZeroOrMore) {
	for (const char* rate : {"nan", "inf", "-1", "many"})
		EXPECT_EQ(judged({{"size", "8"}, {"rate", rate}}).validity, Validity::invalid) << rate;
	EXPECT_EQ(judged({{"size", "8.5"}, {"rate", "1"}}).reason, "size 8.5 is not a whole number");
	EXPECT_EQ(judged({{"size", ""}, {"rate", "1"}}).reason, "there is no size");
	EXPECT_EQ(judged({{"size", 8}, {"rate", true}}).validity, Validity::invalid);
}

// Such a table got no verdict: the judge took it for one of another experiment.
TEST(Judge, ATableWhoseCellsCouldNotBeRunIsJudged) {
	Table table{.rows = {{{"size", 8}, {"kind", "sum"}, {"reason", "too long"}, {"repetitions", Json::array()}}}};
	judge_measured(sums, table);
	EXPECT_EQ(table.rows[0]["validity"], "n/a");
	EXPECT_EQ(table.rows[0]["reason"], "too long");
}

// A worse repetition was left out, and the row was summarized anew; perhaps with the word that
// switched this rule off.
TEST(Judge, AFinishedSweepHasTheSameNumberOfRepetitionsForEachCell) {
	Table table{.rows = {row(8, {1, 2}), row(16, {1})}};
	EXPECT_EQ((*judge(sums, table))[1].validity, Validity::suspect);
	EXPECT_EQ((*judge(sums, table))[1].reason, "1 repetitions, but other rows have 2");
	table.environment = {{"unfinished", "1 repetitions were not measured"}};
	EXPECT_EQ((*judge(sums, table))[1].validity, Validity::suspect);
}

Json with_distances(Json row, double counted, const std::vector<double>& apart) {
	for (Json& each : row["repetitions"]) each["core_to_core_ns"] = counted;
	row["apart"] = Json::array();
	for (const double each : apart) row["apart"].push_back({{"rate", each}, {"core_to_core_ns", each}});
	return row;
}

TEST(Judge, AFinishedSweepHasMeasuredEachCellEquallyOften) {
	const Json full = with_distances(row(8, {1, 2, 3, 4, 5}), 97, {390}),
			   less = with_distances(row(16, {1, 2, 3}), 97, {390, 391, 392}),
			   cut = with_distances(row(16, {1, 2, 3}), 97, {390, 391}),
			   few = with_distances(row(16, {1, 2}), 97, {390, 391, 392, 393});
	const auto judged_beside = [&](const Json& other) { return (*judge(sums, {.rows = {full, other}}))[1]; };
	EXPECT_EQ(judged_beside(less).validity, Validity::valid) << judged_beside(less).reason;
	EXPECT_EQ(judged_beside(cut).validity, Validity::suspect);
	EXPECT_EQ(judged_beside(few).validity, Validity::suspect);
	EXPECT_EQ(judged_beside(few).reason,
		"4 more at another distance between the processors, apart; only 2 repetitions at one distance, which give no "
		"interval");
}

TEST(Judge, ACellStandsInATableOnce) {
	const auto verdicts = judge(sums, {.rows = {row(8, {1}), row(16, {1}), row(8, {2})}});
	EXPECT_EQ((*verdicts)[0].validity, Validity::valid);
	EXPECT_EQ((*verdicts)[1].validity, Validity::valid);
	EXPECT_EQ((*verdicts)[2].reason, "the same cell as row 1");
}

TEST(Judge, ATableOfAnotherExperimentIsRefused) {
	EXPECT_EQ(judge(sums, {.rows = {{{"size", 8}, {"speed", 1}}}}).error(), "no column 'rate'");
}

TEST(Judge, TheVerdictIsTheHeaviestFinding) {
	EXPECT_EQ(judged(row(8, {99, 2})).validity, Validity::suspect);
	Table table{.rows = {row(8, {99, 2})}};
	judge_measured(sums, table);
	EXPECT_EQ(table.rows[0]["validity"], "suspect");
	EXPECT_EQ(table.rows[0]["reason"], "fast");
	Findings findings;
	findings.suspect("a");
	findings.invalid("b");
	findings.remark("c");
	findings.suspect("a");
	EXPECT_EQ(findings.verdict().validity, Validity::invalid);
	EXPECT_EQ(findings.verdict().reason, "a; b; c");
}

TEST(Findings, ListAtMostSoManyReasons) {
	Findings findings;
	for (std::size_t i = 0; i < 2 * reasons_max; ++i) findings.suspect(fmt::format("reason {}.", i));
	findings.invalid("the last");
	EXPECT_EQ(findings.verdict().validity, Validity::invalid);
	EXPECT_TRUE(findings.verdict().reason.ends_with("reason 49.; and more")) << findings.verdict().reason;
}

TEST(LittlesLaw, HoldsWithinOneToleranceOnBothSides) {
	const auto found = [](double rate, double latency, bool only_waits) {
		Findings findings;
		examine_little(rate, latency, {.what = "messages", .most = 64, .only_waits = only_waits}, findings);
		return findings.verdict().validity;
	};
	EXPECT_EQ(found(1e6, 64e-6, true), Validity::valid);
	EXPECT_EQ(found(1e6, 79e-6, true), Validity::valid);
	EXPECT_EQ(found(1e6, 81e-6, true), Validity::invalid);
	EXPECT_EQ(found(1e6, 0.04e-6, true), Validity::invalid);
	EXPECT_EQ(found(1e6, 0.04e-6, false), Validity::valid);
	EXPECT_EQ(found(1e6, 0, true), Validity::valid) << "no latency was taken";
}

TEST(Percentiles, OfARowMayBeTheLastValueOfTheBucketInWhichARepetitionEnds) {
	Histogram slow, fast;
	slow.record(1000, 48);
	slow.record(16'384 + 1, 2);  // the bucket ends at 16'639
	fast.record(1000, 99);
	fast.record(20'000);
	Json repetitions = Json::array({Json::object(), Json::object()});
	add_latency(repetitions[0], slow, {});
	add_latency(repetitions[1], fast, {});
	Json summary;
	summarize_latency(summary, repetitions, {});
	EXPECT_EQ(summary["p99_us"], 16.639);
	EXPECT_EQ(repetitions[0]["p99_us"], 16.385);
	summary["repetitions"] = repetitions;
	const auto found = [&] {
		Findings findings;
		examine_percentiles(summary, {}, findings);
		return findings.verdict().reason;
	};
	EXPECT_EQ(found(), "");
	summary["max_us"] = 20.1;
	EXPECT_EQ(found(), "max_us is not between those of the repetitions");
}

}  // namespace
}  // namespace verbena::bench
