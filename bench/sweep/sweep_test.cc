// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "bench/judge/distance.h"
#include "bench/judge/fixture.h"

namespace verbena::bench {
namespace {

using testing_tools::columns;
using testing_tools::summarize;
using testing_tools::sums;

std::vector<int> order;  // the sizes in the order in which they were measured
int measurements = 0;    // no two repetitions are the same
std::vector<double> distances;  // the next repetitions' ones; none: not measured

class Counted : public Trial {
public:
	Counted(int size, std::string behaviour) : size_(size), behaviour_(std::move(behaviour)) {}
	bool can_run() const override { return behaviour_ != "never"; }
	Measured measure(const ShowStep&) override {
		order.push_back(size_);
		if (behaviour_ == "interrupts") raise(SIGINT);
		if (behaviour_ == "interrupts late" && std::ranges::count(order, size_) == 4) raise(SIGINT);
		Measured measured{.repetition = {{"rate", size_}, {"number", ++measurements}}};
		if (!distances.empty()) {
			measured.repetition["core_to_core_ns"] = distances.front();
			distances.erase(distances.begin());
		}
		measured.far_end_lost = behaviour_ == "is lost";
		measured.failed = measured.far_end_lost || behaviour_ == "fails";
		if (measured.failed) measured.repetition["failure"] = "yes";
		return measured;
	}
	Json row(Json repetitions) const override {
		Json row{{"size", size_}};
		if (!repetitions.empty()) row.update(summarize(row, repetitions));
		if (!can_run()) row["reason"] = "it never runs";
		row["repetitions"] = std::move(repetitions);
		return row;
	}

private:
	int size_;
	std::string behaviour_;
};

class Sweeps : public ::testing::Test {
protected:
	Sweeps() {
		order.clear();
		distances.clear();
	}
	~Sweeps() override { std::filesystem::remove(path_); }

	SweepEnd run(const std::vector<std::pair<int, std::string>>& trials, std::uint32_t repetitions,
		const std::string& resume = "", const std::string& settings = "quick") {
		std::vector<std::unique_ptr<Trial>> all;
		for (const auto& [size, behaviour] : trials) all.push_back(std::make_unique<Counted>(size, behaviour));
		auto files = OutputFiles::open({.json = path_}, columns);
		return sweep(
			sums, all,
			[&](std::span<const Json>) {
				return Environment{
					{"settings", settings}, {"device", "none"}, {"connect", connect_}, {"commit", "1234"}};
			},
			{.repetitions = repetitions, .quiet = true, .resume = resume}, *files);
	}

	std::string connect_ = "exchange";
	const std::string path_ =
		(std::filesystem::temp_directory_path() / ("sweep_test." + std::to_string(getpid()) + ".json")).string();
};

TEST_F(Sweeps, InterleavesTheRepetitionsAndJudgesTheRows) {
	const SweepEnd end = run({{1, ""}, {2, "never"}, {4, ""}}, 2);
	EXPECT_EQ(order, (std::vector<int>{1, 4, 1, 4}));
	ASSERT_EQ(end.table.rows.size(), 3u);
	EXPECT_EQ(end.table.rows[0]["rate"], 2.0);
	EXPECT_EQ(end.table.rows[0]["validity"], "valid");
	EXPECT_EQ(end.table.rows[1]["validity"], "n/a");
	EXPECT_EQ(end.table.rows[1]["reason"], "it never runs");
	EXPECT_FALSE(end.failed || end.interrupted);
	EXPECT_EQ(end.error, "");
	EXPECT_EQ(value_of(end.table.environment, "unfinished"), "");
}

std::vector<double> distances_of(const Json& repetitions) {
	std::vector<double> found;
	for (const Json& each : repetitions) found.push_back(each["core_to_core_ns"]);
	return found;
}

TEST_F(Sweeps, RepetitionsAtAnotherDistanceAreApartAndMeasuredAgain) {
	// The last two are of a further pass.
	distances = {97, 390, 95, 99, 400, 92, 94, 91};
	const SweepEnd end = run({{1, ""}, {2, ""}}, 3);
	EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2}));
	const Json& rows = end.table.rows;
	EXPECT_EQ(distances_of(rows[0]["repetitions"]), (std::vector<double>{97, 95, 94}));
	EXPECT_EQ(distances_of(rows[0]["apart"]), (std::vector<double>{400}));
	EXPECT_EQ(distances_of(rows[1]["repetitions"]), (std::vector<double>{99, 92, 91}));
	EXPECT_EQ(distances_of(rows[1]["apart"]), (std::vector<double>{390}));
	EXPECT_EQ(rows[0]["rate"], 3.0);
	EXPECT_EQ(value_of(end.table.environment, distance_key), "91.0");
	EXPECT_EQ(rows[0]["validity"], "valid");
	EXPECT_EQ(rows[1]["validity"], "valid");
}

TEST_F(Sweeps, ATrialIsMeasuredTwiceAsOftenAtMost) {
	distances = {97, 390, 95, 1000, 99, 4000, 96, 700, 94, 2000, 98, 30};
	const SweepEnd end = run({{1, ""}, {2, ""}}, 3);
	EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}));
	// No two repetitions of the second trial are at the distance of the sweep, so its first ones
	// count.
	EXPECT_EQ(distances_of(end.table.rows[1]["repetitions"]), (std::vector<double>{390, 1000, 4000}));
	EXPECT_EQ(distances_of(end.table.rows[1]["apart"]), (std::vector<double>{700, 2000, 30}));
	for (const Json& row : end.table.rows) EXPECT_EQ(row["validity"], "valid");
}

// The host moved the processors after the first passes.
TEST_F(Sweeps, TheDistanceIsThatOfMostRepetitionsAtTheEnd) {
	distances = {390, 391, 385, 388, 97, 380, 95, 96, 94, 98, 93, 92};
	const SweepEnd end = run({{1, ""}, {2, ""}}, 3);
	const Json& rows = end.table.rows;
	EXPECT_EQ(distances_of(rows[0]["repetitions"]), (std::vector<double>{97, 95, 94, 93}));
	EXPECT_EQ(distances_of(rows[1]["repetitions"]), (std::vector<double>{96, 98, 92}));
	EXPECT_EQ(distances_of(rows[1]["apart"]), (std::vector<double>{391, 388, 380}));
	for (const Json& row : rows) EXPECT_EQ(row["validity"], "valid");
}

TEST_F(Sweeps, CtrlCWhileATrialIsMeasuredAgainKeepsAllAndAResumedSweepGoesOn) {
	distances = {97, 390, 95, 400, 99, 410, 98, 96};
	SweepEnd end = run({{1, ""}, {2, "interrupts late"}}, 3);
	EXPECT_TRUE(end.interrupted);
	EXPECT_EQ(value_of(end.table.environment, "unfinished"), "2 repetitions were not measured");
	order.clear();
	distances = {93, 94, 92, 91};
	end = run({{1, ""}, {2, ""}}, 3, path_);
	EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2}));
	EXPECT_FALSE(end.interrupted);
	EXPECT_EQ(value_of(end.table.environment, "unfinished"), "");
	EXPECT_EQ(distances_of(end.table.rows[1]["repetitions"]), (std::vector<double>{96, 94, 91}));
	EXPECT_EQ(distances_of(end.table.rows[1]["apart"]), (std::vector<double>{390, 400, 410}));
}

TEST_F(Sweeps, AQuickSweepMeasuresNothingAgain) {
	distances = {97, 390, 95, 400};
	const SweepEnd end = run({{1, ""}, {2, ""}}, 2);
	EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2}));
	EXPECT_EQ(end.table.rows[1]["repetitions"].size(), 2u);
}

TEST_F(Sweeps, AResumedSweepKeepsWhatIsApart) {
	distances = {97, 390, 95, 96};
	run({{1, ""}}, 3);
	order.clear();
	const SweepEnd end = run({{1, ""}}, 3, path_);
	EXPECT_EQ(order, std::vector<int>{});
	EXPECT_EQ(distances_of(end.table.rows[0]["repetitions"]), (std::vector<double>{97, 95, 96}));
	EXPECT_EQ(distances_of(end.table.rows[0]["apart"]), (std::vector<double>{390}));
}

TEST_F(Sweeps, ATrialThatFailedIsNotRunAgainAndTheOthersAre) {
	const SweepEnd end = run({{1, "fails"}, {2, ""}}, 2);
	EXPECT_EQ(order, (std::vector<int>{1, 2, 2}));
	EXPECT_TRUE(end.failed);
	EXPECT_EQ(end.table.rows[0]["validity"], "invalid");
	EXPECT_EQ(end.table.rows[1]["validity"], "valid");
}

TEST_F(Sweeps, ALostFarEndEndsTheSweepWithTheRowsMeasured) {
	const SweepEnd end = run({{1, ""}, {2, "is lost"}, {4, ""}}, 3);
	EXPECT_EQ(order, (std::vector<int>{1, 2}));
	EXPECT_EQ(end.table.rows.size(), 2u);
	EXPECT_TRUE(end.failed);
}

TEST_F(Sweeps, CtrlCEndsAfterTheRepetitionAndAResumedSweepMeasuresTheRest) {
	const SweepEnd end = run({{1, ""}, {2, "interrupts"}, {4, ""}}, 2);
	EXPECT_TRUE(end.interrupted);
	EXPECT_EQ(order, (std::vector<int>{1, 2}));
	EXPECT_EQ(end.table.rows.size(), 2u);
	EXPECT_EQ(value_of(end.table.environment, "unfinished"), "4 repetitions were not measured");
	order.clear();
	const SweepEnd rest = run({{1, ""}, {2, ""}, {4, ""}}, 2, path_);
	EXPECT_EQ(rest.error, "");
	EXPECT_EQ(order, (std::vector<int>{4, 1, 2, 4}));
	ASSERT_EQ(rest.table.rows.size(), 3u);
	EXPECT_EQ(rest.table.rows[1]["rate"], 4.0);
	EXPECT_FALSE(rest.interrupted);
	EXPECT_EQ(value_of(rest.table.environment, "unfinished"), "");
}

TEST_F(Sweeps, AnEarlierTableOfOtherSettingsIsRefused) {
	run({{1, ""}}, 1);
	order.clear();
	const SweepEnd end = run({{1, ""}}, 2, path_, "slow");
	EXPECT_EQ(end.error, path_ + " cannot be resumed: its settings was 'quick' and is 'slow' now");
	EXPECT_TRUE(order.empty());
	connect_ = "rdmacm";
	EXPECT_EQ(
		run({{1, ""}}, 2, path_).error, path_ + " cannot be resumed: its connect was 'exchange' and is 'rdmacm' now");
	EXPECT_TRUE(order.empty());
	EXPECT_EQ(run({{1, ""}}, 2, "/no/such/file").error, "cannot read /no/such/file: No such file or directory");
}

TEST_F(Sweeps, AForgedRowIsMeasuredAnew) {
	SweepEnd end = run({{1, ""}, {2, ""}}, 2);
	end.table.rows[0]["rate"] = 50;
	ASSERT_TRUE(OutputFiles::open({.json = path_}, columns)->write_last(end.table));
	order.clear();
	run({{1, ""}, {2, ""}}, 2, path_);
	EXPECT_EQ(order, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace verbena::bench
