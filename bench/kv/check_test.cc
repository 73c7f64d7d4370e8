#include "bench/kv/check.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "bench/kv/rows.h"

namespace verbena::kvbench {
namespace {

std::string file(const char* path) {
	std::stringstream text;
	text << std::ifstream(path).rdbuf();
	return text.str();
}

TEST(KvCheck, ThePublishedTableHasThreeOutliersAndAMislabelledRow) {
	const auto table = check_table(file("bench/published/kv_set_get.csv"));
	ASSERT_TRUE(table) << table.error();
	std::set<std::string> found;
	for (const CheckedRow& row : table->rows)
		if (row.validity != "valid") found.insert(row.validity + ' ' + row.op + ' ' + std::to_string(row.value_bytes));
	EXPECT_EQ(found,
		(std::set<std::string>{"suspect SET 262144", "suspect GET 4", "suspect GET 2048", "mislabelled GET 4096"}));
	ASSERT_EQ(table->remarks.size(), 1u);
	EXPECT_NE(table->remarks[0].find("no size has both protocols"), std::string::npos);
}

TEST(KvCheck, OnlyATableOfThisExperimentIsRecognized) {
	EXPECT_TRUE(is_kv_table(file("bench/published/kv_set_get.csv")));
	EXPECT_FALSE(is_kv_table(file("bench/published/rc_vs_ud.csv")));
	EXPECT_FALSE(is_kv_table(file("bench/published/connection_scale.csv")));
}

TEST(KvCheck, AMissingColumnAndANonNumberAreErrors) {
	EXPECT_FALSE(check_table("op,protocol,value_bytes\nSET,eager,1\n"));
	EXPECT_FALSE(check_table("op,protocol,value_bytes,gigabytes_per_second\nSET,eager,1,fast\n"));
	EXPECT_FALSE(check_table("op,protocol,value_bytes,gigabytes_per_second\nSET,eager,1\n"));
}

TEST(KvCheck, RatesThatContradictEachOtherAreInvalid) {
	const auto table =
		check_table("op,protocol,value_bytes,operations_per_second,gigabytes_per_second\nSET,eager,1000,1000,0.002\n");
	ASSERT_TRUE(table);
	EXPECT_EQ(table->rows[0].validity, "invalid");
}

Run good_run() {
	return {
		.operations = 1000, .elapsed_ns = 1000, .latency_sum_ns = 990, .p50_ns = 900, .messages = 2000, .depth_max = 1};
}

TEST(KvRows, ARowHasBothUnitsAndItsOperations) {
	const kvbench::Run runs[] = {good_run()};
	const Json row = row_of({.op = Op::set, .proto = Proto::eager, .size = 1024}, runs, {});
	EXPECT_DOUBLE_EQ(row["operations_per_second"].get<double>(), 1e9);
	EXPECT_DOUBLE_EQ(row["gigabytes_per_second"].get<double>(), 1024);
	EXPECT_NEAR(row["gibibytes_per_second"].get<double>(), 1024 * 1e9 / (1 << 30), 1e-6);
	EXPECT_EQ(row["messages_per_operation"], 2.0);
	EXPECT_EQ(row["validity"], "valid");
}

TEST(KvRows, ARowThatCannotBeTrueIsInvalid) {
	kvbench::Run wrong = good_run(), deep = good_run(), failed = good_run();
	wrong.wrong = 1;
	deep.latency_sum_ns = 2'000'000;
	failed.failure[0] = 'x';
	for (const kvbench::Run& each : {wrong, deep, failed})
		EXPECT_EQ(row_of({.proto = Proto::eager}, std::span(&each, 1), {})["validity"], "invalid");
	const kvbench::Run eager = good_run();
	EXPECT_EQ(row_of({.proto = Proto::rndv}, std::span(&eager, 1), {})["validity"], "invalid")
		<< "the operations were eager";
}

TEST(KvRows, ThePublishedFormHasHeadingsAndLinesOfSixDecimals) {
	kvbench::Run rendezvous = good_run();
	rendezvous.leased = 1000;
	const kvbench::Run eager = good_run();
	const std::vector<Json> rows{row_of({.op = Op::set, .proto = Proto::eager, .size = 2}, std::span(&eager, 1), {}),
		row_of({.op = Op::set, .proto = Proto::rndv, .size = 4}, std::span(&rendezvous, 1), {})};
	EXPECT_EQ(to_published(rows),
		"SET THROUGHPUT MEASURE\nEager Protocol\n2\t2.000000\tGigabytes/Second\nRendezvous "
		"Protocol\n4\t4.000000\tGigabytes/Second\n");
}

TEST(KvRows, APublishedLineIsTheSizeTheRateAndTheUnitWithTabsBetween) {
	const std::vector<Json> rows{
		{{"op", "GET"}, {"protocol", "eager"}, {"value_bytes", 4096}, {"gigabytes_per_second", 0.0678171}}};
	EXPECT_EQ(to_published(rows), "GET THROUGHPUT MEASURE\nEager Protocol\n4096\t0.067817\tGigabytes/Second\n");
}

TEST(KvRows, TheCrossoverLeavesOutInvalidRows) {
	kvbench::Run rendezvous = good_run(), wrong = good_run();
	rendezvous.leased = wrong.leased = 1000;
	wrong.wrong = 1;
	const kvbench::Run eager = good_run();
	const auto of = [](Proto proto, std::uint32_t size, const kvbench::Run& run) {
		return row_of({.op = Op::set, .proto = proto, .size = size}, std::span(&run, 1), {});
	};
	const std::vector<Json> rows{of(Proto::eager, 64, eager), of(Proto::rndv, 64, rendezvous),
		of(Proto::eager, 4096, eager), of(Proto::rndv, 4096, wrong)};
	const std::string text = to_crossover(rows);
	EXPECT_NE(text.find("64 B"), text.npos) << text;
	EXPECT_EQ(text.find("4 KiB"), text.npos) << text;
}

}  // namespace
}  // namespace verbena::kvbench
