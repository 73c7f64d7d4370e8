// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/judge/judge.h"
#include "bench/scale/fixture.h"
#include "bench/table/table.h"

namespace verbena::scale {
namespace {

using bench::Json;
using bench::Validity;
using testing_tools::good_run;
using testing_tools::run_at;

TEST(ScaleRows, ARowHasItsRateFromTheServersCountAndItsMemoryByConnection) {
	const Json row = testing_tools::row_of({good_run()});
	EXPECT_EQ(row["messages_per_second"], 2000.0);
	EXPECT_EQ(row["success_percent"], 100.0);
	EXPECT_EQ(row["avg_latency_ms"], 2.0);
	EXPECT_EQ(row["avg_connect_ms"], 10.0);
	EXPECT_EQ(row["connections_per_s"], 200.0);
	EXPECT_EQ(row["server_kib_per_connection"], 16.0);
	EXPECT_EQ(row["server_peak_kib_per_connection"], 32.0);
	EXPECT_EQ(row["server_cpu_percent"], 50.0);
	EXPECT_EQ(row["doorbells_per_echo"], 1.5);
	EXPECT_EQ(row["jain"], 1.0);
	EXPECT_EQ(row["qps"], 4.0);
	EXPECT_TRUE(row["distinct_ids"].is_null());
}

TEST(ScaleRows, ARowIsTheMedianWithItsInterval) {
	const Json row = testing_tools::row_of({run_at(1900), run_at(2000), run_at(2100)});
	EXPECT_NEAR(row["messages_per_second"].get<double>(), 2000, 1);
	EXPECT_NEAR(row["messages_per_second_low"].get<double>(), 1900, 1);
	EXPECT_NEAR(row["messages_per_second_high"].get<double>(), 2100, 1);
	EXPECT_NEAR(row["spread"].get<double>(), 0.1, 1e-3);
	EXPECT_EQ(row["repetitions"].size(), 3u);
}

TEST(ScaleRows, ThePublishedColumnsComeFirstInTheirOrder) {
	const std::vector<std::string_view> published{"clients", "success_percent", "avg_connect_ms", "avg_latency_ms",
		"messages_per_second", "peak_memory_mb", "peak_threads"};
	std::vector<std::string_view> first;
	for (const bench::Column& column : experiment().columns)
		if (column.is_published) first.push_back(column.name);
	EXPECT_EQ(first, published);
	EXPECT_EQ(experiment().columns[published.size() - 1].name, published.back());
}

TEST(ScaleRows, EveryValueOfACellAndEveryFigureHasItsColumn) {
	const Json row = testing_tools::row_of({good_run()});
	for (const auto& [name, value] : row.items())
		EXPECT_NE(std::ranges::find(experiment().columns, std::string_view(name), &bench::Column::name),
			experiment().columns.end())
			<< name;
	for (const bench::Column& column : experiment().columns)
		// The sweep adds `apart`.
		EXPECT_TRUE(row.contains(column.name) || column.role == bench::Role::verdict || column.name == "apart")
			<< column.name;
}

TEST(ScaleRows, ACpuTimeThatFellIsNotKnownAndNeverNegative) {
	Outcome run = good_run();
	run.from.clients.cpu_seconds = 3;  // processes that had ended before the second sample
	run.from.clients.voluntary_switches = 7;
	const Json row = testing_tools::row_of({run});
	EXPECT_TRUE(row["clients_cpu_percent"].is_null());
	EXPECT_TRUE(row["clients_switches_per_s"].is_null());
}

TEST(ScaleRows, WithoutADurationAllEchoesCount) {
	Outcome run = good_run();
	run.cell.seconds = 0;
	run.cell.messages = 1250;
	run.latency.record(2'000'000, 1000);
	run.latency_sum_ns = 10'000'000'000;
	const Json row = testing_tools::row_of({run});
	EXPECT_NEAR(row["messages_per_second"].get<double>(), 5000 / 2.6, 1e-9);
	EXPECT_EQ(bench::judge(experiment(), {.rows = {row}})->front().reason, "");
}

TEST(ScaleRows, AServerElsewhereHasNoFigures) {
	Outcome run = good_run();
	run.cell.own_server = false;
	run.server.reset();
	const Json row = testing_tools::row_of({run});
	EXPECT_EQ(row["messages_per_second"], 2000.0) << "the clients' count";
	for (const char* column : {"peak_memory_mb", "server_echoes", "server_cpu_percent", "peak_clients"})
		EXPECT_TRUE(row[column].is_null()) << column;
	const bench::Verdict verdict = bench::judge(experiment(), {.rows = {row}})->front();
	EXPECT_EQ(verdict.validity, Validity::valid);
	EXPECT_EQ(verdict.reason, "repetition 1: the server's counts are not known");
}

TEST(ScaleRows, ACellThatWasNotRunHasNoFigureAndAReason) {
	Json row = row_of(columns_of(good_run().cell), Json::array());
	row["reason"] = "no descriptors";
	const bench::Verdict verdict = bench::judge(experiment(), {.rows = {row}})->front();
	EXPECT_EQ(verdict.validity, Validity::not_applicable);
	EXPECT_EQ(verdict.reason, "no descriptors");
}

TEST(ScaleRows, ARepetitionThatFailedIsInvalidAndTheOthersGiveTheFigures) {
	const Json cell = columns_of(good_run().cell);
	const Json row = row_of(cell, {json_of(good_run()), failed_repetition(cell, "fork: no memory")});
	EXPECT_EQ(row["messages_per_second"], 2000.0);
	const bench::Verdict verdict = bench::judge(experiment(), {.rows = {row}})->front();
	EXPECT_EQ(verdict.validity, Validity::invalid);
	EXPECT_EQ(verdict.reason, "repetition 2: fork: no memory");
	const Json none = row_of(cell, {failed_repetition(cell, "fork: no memory")});
	EXPECT_EQ(bench::judge(experiment(), {.rows = {none}})->front().reason, "repetition 1: fork: no memory");
}

TEST(ScaleRows, ATableThatWasWrittenAndReadIsJudgedAlike) {
	bench::Table table{.environment = {{"commit", "1234"}, {"cores", "2"}},
		.rows = {testing_tools::row_of({good_run(), run_at(1900)})}};
	bench::judge_measured(experiment(), table);
	EXPECT_EQ(table.rows[0]["validity"], "valid") << table.rows[0]["reason"];
	for (const std::string& text : {to_csv(table, experiment().columns), to_json(table, experiment().columns)}) {
		const auto read = bench::read_table(text);
		ASSERT_TRUE(read) << read.error();
		EXPECT_EQ(bench::judge(experiment(), *read)->front().reason, "") << text;
	}
}

TEST(ScaleRows, ATitleNamesTheCell) {
	Cell cell{.clients = 20, .message_bytes = 64};
	EXPECT_EQ(experiment().title(columns_of(cell)), "20 clients over rdma");
	cell.engine = Engine::uring;
	cell.connect_by = ConnectBy::rdmacm;
	cell.queue_pairs = 4;
	cell.rate = 300;
	EXPECT_EQ(experiment().title(columns_of(cell)), "uring: 20 clients over rdma by rdma_cm on 4 queue pairs at 300/s");
	EXPECT_EQ(experiment().title(redis_columns(20, 64)), "redis with 20 clients over tcp");
}

TEST(RedisRows, HaveWhatRedisBenchmarkMeasuresAndNothingElse) {
	const Json cell = redis_columns(50, 64);
	RedisRun run{.requests = 60'000,
		.elapsed_ns = 700'000'000,
		.requests_per_s = 100'000,
		.latency = {.mean_ms = 0.4, .p50_ms = 0.3, .p99_ms = 0.9, .max_ms = 3}};
	const Json first = json_of(run, cell, 120.0);
	++run.elapsed_ns;
	const Json row = row_of(cell, {first, json_of(run, cell, 130.0)});
	EXPECT_EQ(row["messages_per_second"], 100'000.0);
	EXPECT_EQ(row["latency_max_ms"], 3.0);
	EXPECT_EQ(row["round_trip_ns"], 125.0);
	EXPECT_TRUE(row["success_percent"].is_null());
	EXPECT_TRUE(row["latency_p999_ms"].is_null());
	const auto judged = [](const Json& one) { return bench::judge(experiment(), {.rows = {one}})->front(); };
	EXPECT_EQ(judged(row).reason, "");
	for (const auto& [name, value] :
		{std::pair("requests_per_s", Json(300'000.0)), std::pair("elapsed_ns", Json(100'000'000)),
			std::pair("avg_latency_ms", Json(3.5)), std::pair("latency_p99_ms", Json(0.1))}) {
		Json repetition = json_of(run, cell, 120.0);
		repetition[name] = value;
		EXPECT_EQ(judged(row_of(cell, {repetition})).validity, Validity::invalid) << name;
	}
	Json server_figures = row;
	server_figures["server_kib_per_connection"] = 500;
	EXPECT_EQ(judged(server_figures).validity, Validity::invalid);
}

}  // namespace
}  // namespace verbena::scale
