// SPDX-License-Identifier: Apache-2.0
// Finding servers by their entries in a real etcd.
#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/discovery/members.h"
#include "lib/rpc/testing/etcd_process.h"
#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/server_process.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using Balancer = load_balancer<>;

std::unique_ptr<discovery::Registration> enter(const rpc_test::EtcdProcess& etcd, const std::string& name) {
	const auto prefix = discovery::read_etcd(etcd.prefix());
	auto entered = discovery::Registration::make(prefix.value(), name, 5);
	return entered ? std::move(*entered) : nullptr;
}

// Waits up to 20 s until the balancer has exactly these servers; `hosts` is sorted.
bool come_to(const Balancer& balancer, const std::vector<std::string>& hosts) {
	std::vector<server_address> wanted;
	for (const std::string& host : hosts) wanted.push_back({.host = host});
	const auto deadline = std::chrono::steady_clock::now() + 20s;
	while (std::chrono::steady_clock::now() < deadline) {
		auto servers = balancer.servers();
		std::ranges::sort(servers, {}, &server_address::host);
		if (servers == wanted) return true;
		std::this_thread::yield();
	}
	return false;
}

Lazy<int> ask(std::shared_ptr<Balancer> balancer, int number) {
	const auto operation = [number](client_reuse_hint, Client& client) {
		return client.send_request<rpc_test::add>(number, 1);
	};
	auto sent = co_await balancer->send_request(operation);
	if (!sent) co_return -1;
	const auto result = co_await std::move(*sent);
	co_return result ? result->result() : -1;
}

TEST(EtcdWatch, AddedAndRemovedServersAreSeenAtOnce) {
	const rpc_test::EtcdProcess etcd;
	ASSERT_TRUE(etcd.until_it_listens()) << "is etcd-server installed?";
	rpc_test::ServerProcess one("1", "tcp"), other("1", "tcp");
	std::vector<std::string> both{one.address(), other.address()};
	std::ranges::sort(both);

	auto first = enter(etcd, one.address());
	ASSERT_NE(first, nullptr);
	auto watch = watch_etcd(etcd.prefix());
	ASSERT_TRUE(watch) << watch.error();
	const auto balancer = Balancer::create(std::move(*watch));
	EXPECT_TRUE(come_to(*balancer, {one.address()}));
	EXPECT_EQ(syncAwait(ask(balancer, 1)), 2);

	auto second = enter(etcd, other.address());
	EXPECT_TRUE(come_to(*balancer, both));
	first.reset();
	EXPECT_TRUE(come_to(*balancer, {other.address()}));
	one.kill();
	for (int i = 0; i < 10; ++i) EXPECT_EQ(syncAwait(ask(balancer, i)), i + 1);
	second.reset();
	EXPECT_EQ(syncAwait(ask(balancer, 5)), 6) << "an empty list changes nothing: the last server may still be there";
}

TEST(EtcdWatch, APrefixWithoutServersIsNotConnectedUntilOneEnters) {
	const rpc_test::EtcdProcess etcd;
	ASSERT_TRUE(etcd.until_it_listens()) << "is etcd-server installed?";
	auto watch = watch_etcd(etcd.prefix());
	ASSERT_TRUE(watch) << watch.error();
	const auto balancer = Balancer::create(std::move(*watch));
	EXPECT_EQ(syncAwait(ask(balancer, 1)), -1);
	const rpc_test::ServerProcess server("1", "tcp");
	const auto entered = enter(etcd, server.address());
	EXPECT_TRUE(come_to(*balancer, {server.address()}));
	EXPECT_EQ(syncAwait(ask(balancer, 1)), 2);
}

TEST(EtcdWatch, AWrongPrefixOrAnUnreachableEtcdIsAnError) {
	const auto no_prefix = watch_etcd("etcd://127.0.0.1:2379");
	ASSERT_FALSE(no_prefix);
	EXPECT_NE(no_prefix.error().find("etcd://HOST"), std::string::npos) << no_prefix.error();
	const auto nobody = watch_etcd("etcd://127.0.0.1:1/rpc");
	ASSERT_FALSE(nobody);
	EXPECT_NE(nobody.error().find("etcd at"), std::string::npos) << nobody.error();
}

}  // namespace
}  // namespace verbena::rpc
