// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/environment_rules.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

// A row of three repetitions and one apart, at that distance.
Json row_at(double distance_ns) {
	const Json each{{"core_to_core_ns", distance_ns}};
	return {{"repetitions", {each, each, each}}, {"apart", {{{"core_to_core_ns", 9 * distance_ns}}}}};
}

Verdict beside(const Environment& environment, const Json& row) {
	std::vector<Findings> findings(1);
	examine_environment({.environment = environment, .rows = {row}}, findings);
	return findings.front().verdict();
}

TEST(EnvironmentRules, ARowHasTheRepetitionsThatTheCommandAskedFor) {
	const auto with = [](const char* command) { return beside({{"command", command}}, row_at(97)); };
	EXPECT_EQ(with("verbena bench rcud --reps 4 --quiet").reason, "");
	EXPECT_EQ(with("verbena bench rcud --reps=3").reason, "");
	EXPECT_EQ(with("verbena bench rcud --json my--reps5").reason, "");
	EXPECT_EQ(with("verbena bench rcud").reason, "");
	for (const char* command : {"verbena bench rcud --reps 5 --quiet", "verbena bench rcud --reps=5"}) {
		EXPECT_EQ(with(command).validity, Validity::suspect);
		EXPECT_EQ(with(command).reason, "4 repetitions, but the command asked for 5");
	}
}

// Those of distant processors were sold as those of near ones.
TEST(EnvironmentRules, ARowWasMeasuredAtTheDistanceOfTheEnvironment) {
	EXPECT_EQ(beside({{"core_to_core_ns", "278"}}, row_at(270)).reason, "");
	EXPECT_EQ(beside({{"core_to_core_ns", ""}}, row_at(61)).reason, "");
	EXPECT_EQ(beside({{"core_to_core_ns", "278"}}, row_at(61)).validity, Validity::suspect);
	EXPECT_EQ(beside({{"core_to_core_ns", "278"}}, row_at(61)).reason,
		"a cache line takes 61.0 ns between the processors, but the environment says 278");
}

// A distance that no repetition has would have let a forger set any of them apart.
TEST(EnvironmentRules, RepetitionsAreApartFromSomeThatCount) {
	EXPECT_EQ(beside({{"sweep_distance_ns", "80.5"}}, row_at(97)).reason, "");
	EXPECT_EQ(beside({{"sweep_distance_ns", "873"}}, row_at(97)).validity, Validity::invalid);
	EXPECT_EQ(beside({{"sweep_distance_ns", "873"}}, row_at(97)).reason,
		"repetitions are apart, but none counts at the 873 ns that the environment gives the sweep");
	EXPECT_EQ(beside({{"sweep_distance_ns", "near"}}, row_at(97)).reason,
		"sweep_distance_ns in the environment is no number");
	EXPECT_EQ(beside({{"core_to_core_ns", "near"}}, row_at(97)).validity, Validity::invalid);
	EXPECT_EQ(beside({{"sweep_distance_ns", "873"}}, {{"repetitions", {{{"core_to_core_ns", 97}}}}}).reason, "");
}

// With the line of the command went the rule about its --reps.
TEST(EnvironmentRules, ATableWithoutItsEnvironmentSaysSo) {
	const Environment whole{{"cpu", "x"}, {"cores", "2"}, {"kernel", "x"}, {"commit", "x"}, {"date", "x"},
		{"command", "verbena bench rcud"}};
	EXPECT_EQ(remark_on_environment({.environment = whole, .rows = {row_at(97)}}), "");
	EXPECT_EQ(remark_on_environment({.environment = {whole.begin(), whole.end() - 2}, .rows = {row_at(97)}}),
		"the environment lacks date, command: nothing shows where and how it was measured");
	EXPECT_EQ(remark_on_environment({.rows = {{{"size", 8}}}}), "") << "a published table";
}

}  // namespace
}  // namespace verbena::bench
