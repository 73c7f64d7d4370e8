#include "bench/scale/capacity.h"

#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

Outcome with(std::uint64_t clients, std::uint64_t kib) {
	Outcome run{.clients = static_cast<std::uint32_t>(clients)};
	run.connected = clients;
	run.server.emplace();
	run.server->before.resident_bytes = 10 << 20;
	run.server->connected.resident_bytes = (10 << 20) + kib * 1024;
	return run;
}

TEST(Capacity, WhatIsThereAnywayStaysOutOfTheCostOfAClient) {
	const std::vector<Outcome> few{with(100, 5000 + 800), with(100, 5000 + 800)}, many{with(500, 5000 + 4000), with(500, 5000 + 4400)};
	const Cost cost = cost_of(few, many);
	EXPECT_DOUBLE_EQ(cost.kib, 8.5);
	EXPECT_LE(cost.low, cost.kib);
	EXPECT_GE(cost.high, cost.kib);
}

TEST(Capacity, WithoutTwoCountsThereIsNoCost) { EXPECT_EQ(cost_of({}, {}).kib, 0); }

TEST(Capacity, TheScarcestResourceBinds) {
	const Resources resources{.memory_bytes = 1u << 30, .descriptors = 20'000, .queue_pairs = 500'000, .threads = 30'000};
	const Limit rdma = limit_of(ClientKind::rdma, {.kib = 8}, resources);
	EXPECT_EQ(rdma.clients(), 131'072u);
	EXPECT_EQ(rdma.binds(), "memory");
	const Limit tcp = limit_of(ClientKind::tcp_tls, {.kib = 8}, resources);
	EXPECT_EQ(tcp.clients(), 19'936u);
	EXPECT_EQ(tcp.binds(), "descriptors");
	EXPECT_EQ(limit_of(ClientKind::rdma, {.kib = 0.5}, resources).binds(), "queue pairs");
	EXPECT_EQ(limit_of(ClientKind::thread, {.kib = 8}, resources).clients(), engine_threads_max);
}

TEST(Capacity, AMachineHasMemoryDescriptorsAndThreads) {
	const Resources here = resources_here();
	EXPECT_GT(here.memory_bytes, 1u << 26);
	EXPECT_GT(here.descriptors, 16u);
	EXPECT_GT(here.threads, 16u);
}

}  // namespace
}  // namespace verbena::scale
