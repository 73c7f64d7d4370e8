// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/load_balancer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/server_process.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using Balancer = load_balancer<Client>;

std::vector<std::size_t> turns_of(Spread spread, std::size_t count, const std::vector<bool>& usable) {
	std::vector<std::size_t> turns;
	while (turns.size() < count) turns.push_back(spread.next(usable));
	return turns;
}

TEST(Spread, RoundRobinTakesEachPlaceEquallyOften) {
	const std::vector<bool> all(3, true);
	EXPECT_EQ(
		turns_of({load_balance_algorithm::RR, {1, 5, 1}, 1}, 6, all), (std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
	EXPECT_EQ(turns_of({load_balance_algorithm::RR, {1, 1, 1}, 1}, 4, {true, false, true}),
		(std::vector<std::size_t>{0, 2, 0, 2}));
	EXPECT_EQ(turns_of({load_balance_algorithm::RR, {1, 1}, 1}, 2, {false, false}), (std::vector<std::size_t>{0, 1}))
		<< "if none is usable, all are tried";
}

TEST(Spread, WeightedRoundRobinInterleavesEvenly) {
	const auto turns = turns_of({load_balance_algorithm::WRR, {4, 2, 1}, 1}, 7, std::vector<bool>(3, true));
	EXPECT_EQ(turns, (std::vector<std::size_t>{0, 1, 0, 2, 0, 1, 0}));
}

TEST(Spread, RandomFollowsTheWeights) {
	Spread spread(load_balance_algorithm::random, {3, 1, 1}, 4711);
	std::vector<int> counts(3);
	for (int i = 0; i < 10'000; ++i) ++counts[spread.next({true, true, false})];
	EXPECT_NEAR(counts[0], 7'500, 300);
	EXPECT_NEAR(counts[1], 2'500, 300);
	EXPECT_EQ(counts[2], 0);
}

// Makes `calls` calls and counts them by server.
Lazy<std::map<std::string, int>> call_all(std::shared_ptr<Balancer> balancer, int calls) {
	std::map<std::string, int> counts;
	for (int i = 0; i < calls; ++i) {
		const auto operation = [&](client_reuse_hint, Client& client) {
			++counts[client.path().peer];
			return client.send_request<rpc_test::add>(i, 1);
		};
		auto sent = co_await balancer->send_request(operation);
		if (!sent) continue;
		const auto result = co_await std::move(*sent);
		EXPECT_TRUE(result && result->result() == i + 1);
	}
	co_return counts;
}

TEST(LoadBalancer, RequestsGoToTheServersByWeight) {
	rpc_test::ServerProcess one("1", "tcp"), other("1", "tcp");
	const auto balancer =
		Balancer::create({one.address(), other.address()}, {.lba = load_balance_algorithm::WRR}, {3, 1});
	auto counts = syncAwait(call_all(balancer, 40));
	EXPECT_EQ(counts[one.address()], 30);
	EXPECT_EQ(counts[other.address()], 10);
}

TEST(LoadBalancer, AnUnreachableServerIsLeftOutAndTakenBack) {
	rpc_test::ServerProcess one("1", "tcp"), other("1", "tcp");
	const int port = other.port();
	const auto balancer = Balancer::create({one.address(), other.address()}, {.pool = {.reconnect_wait_time = 50ms}});
	other.kill();
	auto counts = syncAwait(call_all(balancer, 10));
	EXPECT_EQ(counts[one.address()], 10) << "no request is lost: none had been sent yet";
	rpc_test::ServerProcess again("1", "tcp", port);
	const auto deadline = std::chrono::steady_clock::now() + 20s;
	while (syncAwait(call_all(balancer, 2))[again.address()] == 0)
		ASSERT_LT(std::chrono::steady_clock::now(), deadline);
	one.kill();
	again.kill();
	const auto operation = [](client_reuse_hint, Client& client) { return client.send_request<rpc_test::add>(1, 1); };
	while (syncAwait(balancer->send_request(operation)))
		ASSERT_LT(std::chrono::steady_clock::now(), deadline);  // until the balancer has noticed
	EXPECT_EQ(syncAwait(balancer->send_request(operation)).error(), errc::not_connected);
}

TEST(LoadBalancer, AResolverIsAskedAgain) {
	rpc_test::ServerProcess one("1", "tcp"), other("1", "tcp");
	const auto asked = std::make_shared<std::atomic<int>>(0);
	const auto servers = [asked, first = one.address(), second = other.address()] {
		return std::vector<server_address>{{.host = asked->fetch_add(1) == 0 ? first : second}};
	};
	const auto balancer = Balancer::create(resolver(servers), {.update_interval = 10ms});
	while (*asked < 3) std::this_thread::yield();
	EXPECT_EQ(balancer->servers(), (std::vector<server_address>{{.host = other.address()}}));
	EXPECT_EQ(syncAwait(call_all(balancer, 5))[other.address()], 5);
}

TEST(LoadBalancer, ANameStandsForAllItsAddresses) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto balancer = Balancer::create(dns_resolver("localhost:" + std::to_string(server.port())));
	const auto servers = balancer->servers();
	EXPECT_TRUE(
		std::ranges::any_of(servers, [&](const server_address& each) { return each.host == server.address(); }));
	EXPECT_EQ(syncAwait(call_all(balancer, 5))[server.address()], 5) << "addresses without a server are left out";
	EXPECT_TRUE(dns_resolver("no-such-host.invalid:1")().empty());
}

}  // namespace
}  // namespace verbena::rpc
