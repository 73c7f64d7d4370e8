#include "bench/scale/rows.h"

#include <gtest/gtest.h>

#include "bench/scale/redis.h"

namespace verbena::scale {
namespace {

// A run that is valid in every respect; each test changes only the fields that it is about.
Outcome good_run(double rate_per_s = 1000) {
	Outcome run{.clients = 4, .message_bytes = 64, .seconds = 2};
	for (std::uint32_t i = 0; i < run.clients; ++i) {
		run.rows.push_back({.echoes = 600, .connected = true, .connect_ms = 10, .latency_ms = 2});
		run.connect.record(10'000'000);
	}
	run.latency.record(2'000'000);
	run.latency_sum_ms = 2;
	run.connect_sum_ms = 40;
	run.connected = run.good = 4;
	run.echoes = 2400;
	run.connecting_s = 0.02;
	run.from = {.at = 1'000'000'000, .echoed = 100};
	run.to = {.at = 3'000'000'000, .echoed = 100 + static_cast<std::uint64_t>(2 * rate_per_s)};
	run.server.emplace();
	run.server->before.resident_bytes = 1 << 20;
	run.server->connected.resident_bytes = (1 << 20) + (64 << 10);
	run.server->after.peak_resident_bytes = (1 << 20) + (128 << 10);
	run.server->threads_peak = 3;
	run.server->peak = 4;
	run.server->echoed = 2400;
	return run;
}

TEST(ScaleRows, ARunHasItsRateFromTheServersCountAndItsMemoryByConnection) {
	const Outcome run = good_run();
	EXPECT_DOUBLE_EQ(run.messages_per_s(), 1000);
	EXPECT_DOUBLE_EQ(run.connections_per_s(), 200);
	EXPECT_DOUBLE_EQ(*run.server_kib_per_connection(), 16);
	EXPECT_DOUBLE_EQ(*run.server_peak_kib_per_connection(), 32);
	EXPECT_DOUBLE_EQ(run.fairness(), 1);
	EXPECT_EQ(judge(run).validity, "valid");
}

TEST(ScaleRows, OtherClientsAtOnceThanConnectedIsInvalid) {
	Outcome run = good_run();
	run.server->peak = 3;
	EXPECT_EQ(judge(run).validity, "invalid");
}

TEST(ScaleRows, OtherEchoesThanTheServersIsInvalid) {
	Outcome run = good_run();
	run.server->echoed = 2399;
	EXPECT_EQ(judge(run).validity, "invalid");
}

TEST(ScaleRows, MoreUnderWayThanTheWindowsAllowIsInvalid) {
	EXPECT_EQ(judge(good_run(2200)).validity, "invalid");  // 2,200 a second of 2 ms each: 4.4 of 4
}

TEST(ScaleRows, ARateThatWasNotKeptIsSuspect) {
	Outcome run = good_run();
	run.rate = 1200;
	EXPECT_EQ(judge(run).validity, "suspect");
}

TEST(ScaleRows, UnequalWorkIsSuspect) {
	Outcome run = good_run();
	run.rows[0].echoes = 2100;
	for (int i = 1; i < 4; ++i) run.rows[i].echoes = 100;
	EXPECT_EQ(judge(run).validity, "suspect");
}

TEST(ScaleRows, AFailedClientShowsInTheRow) {
	Outcome run = good_run();
	run.good = 3;
	run.failures[static_cast<std::size_t>(Cause::lost)] = 1;
	const Json row = row_of("tls-psn", std::span(&run, 1));
	EXPECT_EQ(row["validity"], "valid");
	EXPECT_EQ(row["success_percent"], 75.0);
	EXPECT_EQ(row["failed_lost"], 1);
}

TEST(ScaleRows, ARowIsTheMedianWithItsIntervalAndThePublishedColumnsComeInTheirOrder) {
	const std::vector<Outcome> runs{good_run(900), good_run(1000), good_run(1300)};
	const Json row = row_of("tls-psn", runs);
	EXPECT_EQ(row["messages_per_second"], 1000.0);
	EXPECT_EQ(row["messages_per_second_low"], 900.0);
	EXPECT_EQ(row["messages_per_second_high"], 1300.0);
	EXPECT_EQ(row["repetitions"].size(), 3u);
	const std::vector<std::string> published{"clients", "success_percent", "avg_connect_ms", "avg_latency_ms",
		"messages_per_second", "peak_memory_mb", "peak_threads"};
	auto at = row.items().begin();
	while (at.key() != "clients") ++at;
	for (const std::string& name : published) EXPECT_EQ((at++).key(), name);
}

TEST(ScaleRows, ACellThatWasNotRunHasTheSameColumnsAndAReason) {
	const Outcome run = good_run();
	const Json row = row_not_run("tls-psn", {.clients = 4}, "no descriptors");
	EXPECT_EQ(row.size(), row_of("tls-psn", std::span(&run, 1)).size());
	EXPECT_EQ(row["validity"], "n/a");
	EXPECT_EQ(row["clients"], 4);
	EXPECT_TRUE(row["messages_per_second"].is_null());
}

TEST(PlanProcesses, TenThousandClientsAProcess) {
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 10}, 0, true, 20'000), 1u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 0, true, 20'000), 2u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 5, true, 20'000), 5u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 3}, 5, true, 20'000), 3u);
}

TEST(PlanProcesses, LogicalClientsNeedNoDescriptorsButAQueuePairInEachProcess) {
	EXPECT_EQ(plan_processes({.transport = Transport::tcp, .clients = 100'000, .queue_pairs = 64}, 0, true, 1000), 2u);
	EXPECT_EQ(plan_processes({.clients = 100'000, .queue_pairs = 1}, 4, true, 1000), 1u);
}

TEST(ScaleRows, LogicalClientsThatTheServerCannotTellApartAreInvalid) {
	Outcome run = good_run();
	run.queue_pairs = 2;
	run.server->queue_pairs = 2;
	run.server->labels = 4;
	EXPECT_EQ(judge(run).validity, "valid");
	run.server->labels = 3;
	EXPECT_EQ(judge(run).validity, "invalid");
	run.server->labels = 4;
	run.server->queue_pairs = 4;
	EXPECT_EQ(judge(run).validity, "invalid");
}

TEST(PlanProcesses, FewDescriptorsMeanMoreProcesses) {
	EXPECT_EQ(plan_processes({.transport = Transport::tcp, .clients = 2000}, 0, false, 1064), 2u);
}

TEST(PlanProcesses, AShortageOfDescriptorsIsNamed) {
	const auto plan = plan_processes({.transport = Transport::tcp, .clients = 20'000}, 0, true, 20'000);
	ASSERT_FALSE(plan);
	EXPECT_NE(plan.error().find("shortage of descriptors"), std::string::npos);
	EXPECT_TRUE(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 0, true, 20'000));
}

TEST(Causes, AShortageOfThisSideIsNotTheServersFailure) {
	using channel::ConnectTrouble;
	EXPECT_EQ(cause_of(ConnectTrouble::no_descriptor), Cause::descriptors);
	EXPECT_EQ(cause_of(ConnectTrouble::no_port), Cause::ports);
	EXPECT_EQ(cause_of(ConnectTrouble::timed_out), Cause::timed_out);
	EXPECT_EQ(cause_of(ConnectTrouble::unreachable), Cause::connect);
	EXPECT_EQ(cause_of(ConnectTrouble::handshake), Cause::connect);
}

TEST(Redis, TheRateIsTheSecondFieldOfTheLastLine) {
	EXPECT_EQ(read_redis_csv("\"test\",\"rps\",\"avg_latency_ms\"\n\"ECHO xx\",\"48387.10\",\"2.0\"\n"), 48387.10);
	EXPECT_FALSE(read_redis_csv("Could not connect to Redis\n"));
	EXPECT_FALSE(read_redis_csv(""));
}

}  // namespace
}  // namespace verbena::scale
