#include "bench/rpc/rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace verbena::rpcbench {
namespace {

TEST(RpcRows, ThePublishedTablesImpossibleRowsAreFoundAndNoOthers) {
	std::ifstream file("bench/published/rpc_rdma.csv");
	std::stringstream text;
	text << file.rdbuf();
	ASSERT_TRUE(is_rpc_table(text.str()));
	const auto rows = check_table(text.str());
	ASSERT_TRUE(rows) << rows.error();
	std::vector<std::string> product, below_mean;
	for (const CheckedRow& row : *rows) {
		const std::string name = row.size + " at " + std::to_string(row.concurrency);
		if (row.validity == "invalid") product.push_back(name);
		if (row.validity == "suspect") below_mean.push_back(name);
	}
	EXPECT_EQ(rows->size(), 30u);
	EXPECT_EQ(product, (std::vector<std::string>{"128B at 64", "128B at 256", "4K at 256", "256K at 256"}));
	EXPECT_EQ(below_mean, (std::vector<std::string>{"8M at 1", "8M at 256"}));
}

Outcome run_of(std::uint64_t requests, double mean_us) {
	Outcome run{.requests = requests,
		.served = requests,
		.seconds = 1,
		.latency_sum_us = mean_us * static_cast<double>(requests)};
	for (int i = 0; i < 100; ++i) run.latency.record(static_cast<std::uint64_t>(mean_us * 1000));
	return run;
}

TEST(RpcRows, ARowHasThePublishedColumnsFirst) {
	const std::vector<Outcome> runs{run_of(10'000, 99)};
	const Json row = row_of({.size = 4096, .concurrency = 1}, runs);
	std::vector<std::string> names;
	for (const auto& [key, value] : row.items()) names.push_back(key);
	names.resize(6);
	EXPECT_EQ(names,
		(std::vector<std::string>{"request_size", "concurrency", "gigabits_per_second", "p90_us", "p99_us", "qps"}));
	EXPECT_EQ(row["request_size"], "4K");
	EXPECT_EQ(row["validity"], "valid");
}

TEST(RpcRows, ARowKeepsEachRepetitionAndTheIntervalsOverThem) {
	const std::vector<Outcome> runs{run_of(10'000, 99), run_of(9'000, 110), run_of(8'000, 124)};
	const Json row = row_of({.size = 4096, .concurrency = 1}, runs);
	ASSERT_EQ(row["each_repetition"].size(), 3u);
	for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(row["each_repetition"][i]["qps"], runs[i].qps());
	EXPECT_EQ(row["qps"], 9'000);
	EXPECT_EQ(row["p99_us"], row["each_repetition"][1]["p99_us"]);
	EXPECT_EQ(row["p99_us_low"], row["each_repetition"][0]["p99_us"]);
	EXPECT_EQ(row["p99_us_high"], row["each_repetition"][2]["p99_us"]);
}

TEST(RpcRows, MoreInFlightThanThereWereRequestsIsInvalid) {
	const std::vector<Outcome> runs{run_of(10'000, 250)};
	EXPECT_EQ(row_of({.size = 128, .concurrency = 1}, runs)["validity"], "invalid");
}

TEST(RpcRows, MoreAnswersThanTheServerServedAreInvalid) {
	std::vector<Outcome> runs{run_of(10'000, 99)};
	runs[0].served = 9'999;
	EXPECT_EQ(row_of({.size = 128, .concurrency = 1}, runs)["validity"], "invalid");
}

}  // namespace
}  // namespace verbena::rpcbench
