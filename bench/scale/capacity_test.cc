// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/capacity.h"

#include <gtest/gtest.h>

#include "bench/judge/judge.h"
#include "bench/scale/fixture.h"

namespace verbena::scale {
namespace {

bench::Json with(std::uint64_t clients, std::uint64_t kib, std::uint64_t kernel_kib = 0) {
	return {{"failure", ""}, {"connected", clients}, {"resident_before", 10u << 20},
		{"resident_connected", (10u << 20) + kib * 1024}, {"kernel_before", 7u << 20},
		{"kernel_connected", (7u << 20) + kernel_kib * 1024}, {"queue_pairs_max", 500'000u}};
}

TEST(Capacity, MemoryNeededWithoutClientsIsNotPartOfAClientsCost) {
	const auto few = bench::Json::array({with(100, 5000 + 800), with(100, 5000 + 800)}),
			   many = bench::Json::array({with(500, 5000 + 4000), with(500, 5000 + 4400)});
	const Cost cost = cost_of(growth_of(ClientKind::rdma, few, many).server);
	EXPECT_DOUBLE_EQ(cost.kib, 8.5);
	EXPECT_LE(cost.low, cost.kib);
	EXPECT_GE(cost.high, cost.kib);
}

TEST(Capacity, WithoutTwoCountsThereIsNoCost) {
	EXPECT_TRUE(growth_of(ClientKind::rdma, bench::Json::array(), bench::Json::array()).server.empty());
	const Cost none = cost_of({});
	EXPECT_EQ(none.kib, 0);
	EXPECT_EQ(none.low, 0);
	EXPECT_EQ(none.high, 0);
}

// The kernel's memory is counted for both ends of a connection, so half of it is the server's.
TEST(Capacity, AClientIsMadeOfAQueuePairOrOfADescriptorAndATlsSession) {
	const auto growth = [](ClientKind kind, std::uint64_t kib, std::uint64_t kernel_kib) {
		const auto few = bench::Json::array({with(100, 1000, 50)}),
				   many = bench::Json::array({with(200, 1000 + 100 * kib, 50 + 100 * kernel_kib)});
		return growth_of(kind, few, many);
	};
	const std::vector<Growth> kinds{
		growth(ClientKind::rdma, 9, 0), growth(ClientKind::tcp_tls, 14, 8), growth(ClientKind::tcp_clear, 4, 8)};
	EXPECT_EQ(describe_parts(kinds),
		"a queue pair and its channel 9.00 KiB [9.00, 9.00]; a TLS session 10.00 KiB [10.00, 10.00]; a descriptor and "
		"its channel "
		"4.00 KiB [4.00, 4.00], and 4.00 KiB [4.00, 4.00] in the kernel");
	EXPECT_EQ(describe_parts(std::span(kinds).first(2)), "");
}

TEST(Capacity, EachRepetitionHasACostOfATlsSession) {
	const std::vector<Growth> kinds{{ClientKind::rdma, {9, 9, 9}, {0, 0, 0}},
		{ClientKind::tcp_tls, {14, 16, 15}, {4, 4, 4}}, {ClientKind::tcp_clear, {4, 4, 4}, {4, 4, 4}}};
	EXPECT_NE(describe_parts(kinds).find("a TLS session 11.00 KiB [10.00, 12.00]"), std::string::npos)
		<< describe_parts(kinds);
}

TEST(Capacity, TheScarcestResourceBinds) {
	const Resources resources{
		.memory_bytes = 1u << 30, .descriptors = 20'000, .queue_pairs = 500'000, .threads = 30'000};
	const auto of = [](ClientKind kind, double kib, double kernel_kib = 0) {
		return Growth{kind, {kib}, {kernel_kib}};
	};
	const Limit rdma = limit_of(of(ClientKind::rdma, 8), resources);
	EXPECT_EQ(rdma.clients(), 131'072u);
	EXPECT_EQ(rdma.binds(), "memory");
	const Limit tcp = limit_of(of(ClientKind::tcp_tls, 8), resources);
	EXPECT_EQ(tcp.clients(), 19'936u);
	EXPECT_EQ(tcp.binds(), "descriptors");
	// The kernel's memory for a descriptor counts as memory.
	EXPECT_EQ(limit_of(of(ClientKind::tcp_tls, 40, 24), resources).clients(), 16'384u);
	EXPECT_EQ(limit_of(of(ClientKind::rdma, 0.5), resources).binds(), "queue pairs");
	EXPECT_EQ(limit_of(of(ClientKind::thread, 8), resources).clients(), engine_threads_max);
}

TEST(Capacity, AMachineHasMemoryDescriptorsAndThreads) {
	const Resources here = resources_here();
	EXPECT_GT(here.memory_bytes, 1u << 26);
	EXPECT_GT(here.descriptors, 16u);
	EXPECT_GT(here.threads, 16u);
}

// Two rows of a kind, and the environment that follows from them.
bench::Table capacity_table() {
	bench::Table table;
	for (const std::uint32_t clients : {4u, 8u}) {
		Outcome run = testing_tools::good_run();
		run.cell.clients = clients;
		for (std::uint32_t i = 4; i < clients; ++i) {
			run.rows.push_back(run.rows.front());
			run.connect.record(10'000'000);
		}
		run.good = run.connected = run.server->peak = run.server->queue_pairs = clients;
		run.connect_sum_ns = 10'000'000 * std::uint64_t{clients};
		run.echoes = run.server->echoed = run.server->counters.send_posts = 1250 * std::uint64_t{clients};
		run.server->connected.resident_bytes += clients * 8192;
		run.cell.rate = 0;
		run.latency = {};
		run.latency.record(2'000'000, 1000 * clients);
		run.latency_sum_ns = 2'000'000'000 * std::uint64_t{clients};
		run.to.echoed = run.from.echoed + 1000 * std::uint64_t{clients};
		table.rows.push_back(testing_tools::row_of({run}));
	}
	const Resources resources{.memory_bytes = 1u << 30, .descriptors = 20'000, .queue_pairs = 0, .threads = 30'000};
	table.environment = {{std::string(capacity_resources), describe(resources)}};
	for (auto& line : capacity_of(table.rows, resources)) table.environment.push_back(line);
	return table;
}

TEST(Capacity, TheLinesOfTheEnvironmentFollowFromTheRows) {
	bench::Table table = capacity_table();
	EXPECT_EQ(bench::value_of(table.environment, "capacity rdma"),
		"8.00 KiB [8.00, 8.00] a client; memory: 131072; queue pairs: 1048576; at most 131072, bound by memory");
	EXPECT_EQ((*bench::judge(experiment(), table))[0].reason, "");
	table.environment.back().second = "4.00 KiB [4.00, 4.00] a client; memory: 750000; at most 750000, bound by memory";
	EXPECT_EQ((*bench::judge(experiment(), table))[1].validity, bench::Validity::invalid);
	table = capacity_table();
	table.environment.emplace_back("capacity logical, on shared queue pairs", "0.10 KiB");
	EXPECT_NE((*bench::judge(experiment(), table))[0].reason.find("but the rows give 'nothing'"), std::string::npos);
	table = capacity_table();
	table.rows[0]["repetitions"] = "none";
	EXPECT_EQ((*bench::judge(experiment(), table))[1].validity, bench::Validity::invalid);
}

TEST(Capacity, ResourcesReadBackAsTheyWereWritten) {
	const Resources here = resources_here();
	const Resources read = resources_of({{std::string(capacity_resources), describe(here)}});
	EXPECT_EQ(read.memory_bytes, here.memory_bytes);
	EXPECT_EQ(read.descriptors, here.descriptors);
	EXPECT_EQ(read.threads, here.threads);
	EXPECT_EQ(resources_of({}).memory_bytes, 0u);
}

TEST(Capacity, ARowOfAnotherConditionIsOfNoKind) {
	Cell cell{.clients = 4, .message_bytes = 64};
	EXPECT_EQ(kind_of(columns_of(cell)), ClientKind::rdma);
	cell.without = Without::pooling;
	EXPECT_FALSE(kind_of(columns_of(cell)));
	cell = {.transport = Transport::tcp, .in_clear = true, .clients = 4};
	EXPECT_EQ(kind_of(columns_of(cell)), ClientKind::tcp_clear);
	EXPECT_FALSE(kind_of(redis_columns(4, 64)));
	for (const bool in_clear : {false, true}) {
		cell = {.connect_by = ConnectBy::rdmacm, .in_clear = in_clear, .clients = 4};
		EXPECT_FALSE(kind_of(columns_of(cell)));
	}
}

}  // namespace
}  // namespace verbena::scale
