#include "bench/scale/capacity.h"

#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

Outcome with(std::uint64_t clients, std::uint64_t kib, std::uint64_t kernel_kib = 0) {
	Outcome run{.clients = static_cast<std::uint32_t>(clients)};
	run.connected = clients;
	run.server.emplace();
	run.server->before.resident_bytes = 10 << 20;
	run.server->connected.resident_bytes = (10 << 20) + kib * 1024;
	run.server->kernel_before = 7 << 20;
	run.server->kernel_connected = (7 << 20) + kernel_kib * 1024;
	return run;
}

TEST(Capacity, MemoryNeededWithoutClientsIsNotPartOfAClientsCost) {
	const std::vector<Outcome> few{with(100, 5000 + 800), with(100, 5000 + 800)},
		many{with(500, 5000 + 4000), with(500, 5000 + 4400)};
	const Cost cost = cost_of(growth_of(ClientKind::rdma, few, many).server);
	EXPECT_DOUBLE_EQ(cost.kib, 8.5);
	EXPECT_LE(cost.low, cost.kib);
	EXPECT_GE(cost.high, cost.kib);
}

TEST(Capacity, WithoutTwoCountsThereIsNoCost) {
	EXPECT_TRUE(growth_of(ClientKind::rdma, {}, {}).server.empty());
	EXPECT_EQ(cost_of({}).kib, 0);
}

// The kernel's memory is counted for both ends of a connection, so half of it is the server's.
TEST(Capacity, AClientIsMadeOfAQueuePairOrOfADescriptorAndATlsSession) {
	const auto growth = [](ClientKind kind, std::uint64_t kib, std::uint64_t kernel_kib) {
		const std::vector<Outcome> few{with(100, 1000, 50)}, many{with(200, 1000 + 100 * kib, 50 + 100 * kernel_kib)};
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

}  // namespace
}  // namespace verbena::scale
