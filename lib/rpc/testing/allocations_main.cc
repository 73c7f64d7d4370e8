// SPDX-License-Identifier: Apache-2.0
// Tests the number of heap allocations of a small call in steady state, at the client and at the
// server. A program of its own because allocations.cc replaces malloc; the server counts in its own
// process.
#include "lib/rpc/testing/allocations.h"

#include "lib/rpc/testing/connected.h"

namespace verbena::rpc {
namespace {

class Allocations : public rpc_test::Connected {};
INSTANTIATE_TEST_SUITE_P(
	Over, Allocations, ::testing::Values("tcp", "rdma"), [](const auto& info) { return info.param; });

constexpr int calls = 4'000;

struct Taken {
	double client = 0, server = 0;  // allocations per call
};

// Makes `count` calls one after the other. True: all results were right.
Lazy<bool> call_one_by_one(Client& client, int count, std::string_view request) {
	bool good = true;
	for (int i = 0; i < count; ++i) {
		client.set_req_attachment(request);
		const auto sum = co_await client.call<rpc_test::add>(i, 1);
		good = good && sum && *sum == i + 1;
	}
	co_return good;
}

Lazy<bool> caller(Client& client, int count, std::string_view request) {
	bool good = true;
	for (int i = 0; i < count; ++i) {
		request_config_t config{.request_attachment = request};
		auto sent = co_await client.send_request<rpc_test::add>(config, i, 1);
		const auto sum = co_await std::move(sent);
		good = good && sum && sum->result() == i + 1;
	}
	co_return good;
}
// Makes `count` calls with sixteen in flight.
Lazy<bool> call_together(Client& client, int count, std::string_view request) {
	constexpr int together = 16;
	std::vector<Lazy<bool>> callers;
	for (int i = 0; i < together; ++i) callers.push_back(caller(client, count / together, request));
	const auto good = co_await collectAll(std::move(callers));
	co_return std::ranges::count(good, true) == together;
}

// Runs the work twice to warm up, and counts during the third run.
template <class Work> Taken measure(Client& client, Work work) {
	EXPECT_TRUE(syncAwait(work(client, calls)));
	EXPECT_TRUE(syncAwait(work(client, calls)));
	const std::uint64_t server = *syncAwait(client.call<rpc_test::count_of_allocations>()),
						own = rpc_test::count_of_allocations();
	EXPECT_TRUE(syncAwait(work(client, calls)));
	const std::uint64_t own_after = rpc_test::count_of_allocations();
	const std::uint64_t server_after = *syncAwait(client.call<rpc_test::count_of_allocations>());
	return {.client = static_cast<double>(own_after - own) / calls,
		.server = static_cast<double>(server_after - server) / calls};
}

// Expected allocations: none for a body of numbers; 1 for a message over TCP; one sixth for the
// outbox's deque, which allocates once for several entries.
double of_message(const std::string& transport) { return transport == "tcp" ? 1.0 : 0.0; }
constexpr double of_outbox = 1.0 / 6, tolerance = 0.1;

TEST_P(Allocations, ASmallCallAllocatesForItsBodyItsMessageAndItsCoroutine) {
	const std::string request(128, 'r');
	const Taken taken =
		measure(client_, [&](Client& client, int count) { return call_one_by_one(client, count, request); });
	const double both = of_outbox + of_message(GetParam()) + tolerance;
	EXPECT_LT(taken.client, both + 1);
	EXPECT_LT(taken.server, both);
}

TEST_P(Allocations, ACallOfManyInFlightAllocatesItsCoroutinesAndItsAnswer) {
	const std::string request(128, 'r');
	const Taken taken =
		measure(client_, [&](Client& client, int count) { return call_together(client, count, request); });
	// Sixteen calls share messages, but not always all of them: half of the cost is allowed for.
	const double both = (of_outbox + of_message(GetParam())) / 2 + tolerance;
	EXPECT_LT(taken.client, both + 3);
	EXPECT_LT(taken.server, both);
}

}  // namespace
}  // namespace verbena::rpc
