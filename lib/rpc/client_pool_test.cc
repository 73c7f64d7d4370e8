// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/client_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/identity.h"
#include "lib/rpc/testing/server_process.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using Pool = client_pool<Client>;

Lazy<std::string> shared_echo(std::shared_ptr<Pool> pool, std::string text) {
	auto sent = co_await pool->send_request(
		[&](client_reuse_hint, Client& client) { return client.send_request<rpc_test::echo>(text); });
	if (!sent) co_return "no connection: " + pool->error_text();
	const auto result = co_await std::move(*sent);
	if (!result) co_return result.error().msg;
	co_return std::string(result->result());
}

// Starts `count` calls that each take `milliseconds`.
Lazy<std::vector<Lazy<async_rpc_result<int>>>> begin_waits(std::shared_ptr<Pool> pool, int count, int milliseconds) {
	std::vector<Lazy<async_rpc_result<int>>> waiting;
	for (int i = 0; i < count; ++i) {
		const auto wait = [=](client_reuse_hint, Client& client) {
			return client.send_request<rpc_test::wait_ms>(milliseconds);
		};
		auto sent = co_await pool->send_request(wait);
		waiting.push_back(std::move(*sent));
	}
	co_return waiting;
}

TEST(ClientPool, CallersShareOneConnection) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto pool = Pool::create(server.address());
	for (int i = 0; i < 20; ++i) EXPECT_EQ(syncAwait(shared_echo(pool, "hello")), "hello");
	EXPECT_EQ(pool->total_client_count(), 1u);
	EXPECT_EQ(pool->free_client_count(), 1u);
}

TEST(ClientPool, AnOperationWithoutTheHintHasAConnectionOfItsOwn) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto pool = Pool::create(server.address());
	const auto body = [](std::shared_ptr<Pool> pool) -> Lazy<void> {
		const auto outer = co_await pool->send_request([&](Client& first) -> Lazy<int> {
			const auto inner =
				co_await pool->send_request([](Client& second) { return second.call<rpc_test::add>(1, 2); });
			const auto own = co_await first.call<rpc_test::add>(3, 4);
			co_return inner->value() + *own;
		});
		EXPECT_EQ(outer.value_or(0), 10);
	};
	syncAwait(body(pool));
	EXPECT_EQ(pool->total_client_count(), 2u);
	EXPECT_EQ(pool->busy_client_count(), 0u);
}

TEST(ClientPool, AnotherConnectionIsMadeWhenAllAreBusy) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto pool = Pool::create(server.address(), {.max_connection = 3, .reuse_limit = 2});
	const auto body = [](std::shared_ptr<Pool> pool) -> Lazy<void> {
		auto waiting = co_await begin_waits(pool, 10, 100);
		EXPECT_EQ(pool->total_client_count(), 3u);
		for (auto& each : waiting) {
			const auto result = co_await std::move(each);
			EXPECT_TRUE(result);
		}
	};
	syncAwait(body(pool));
}

TEST(ClientPool, ManyCallersAtOnceStayWithinMaxConnection) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto pool = Pool::create(server.address(), {.max_connection = 4});
	const auto body = [](std::shared_ptr<Pool> pool) -> Lazy<void> {
		std::vector<Lazy<std::string>> all;
		for (int i = 0; i < 200; ++i) all.push_back(shared_echo(pool, "hello"));
		const auto answers = co_await collectAll(std::move(all));
		for (const auto& each : answers) EXPECT_EQ(each, "hello");
	};
	syncAwait(body(pool));
	EXPECT_LE(pool->total_client_count(), 4u);
}

// A port that accepts connections and never answers.
class SilentPort {
public:
	SilentPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
		sockaddr_in here{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
		socklen_t size = sizeof here;
		EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&here), size), 0);
		EXPECT_EQ(listen(fd_, 16), 0);
		EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size), 0);
		port_ = ntohs(here.sin_port);
	}
	~SilentPort() { close(fd_); }
	std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
	int fd_, port_ = 0;
};

long sleeps_of_this_process() {
	rusage use{};
	getrusage(RUSAGE_SELF, &use);
	return use.ru_nvcsw;
}

// One caller tries to connect for a second, and nineteen wait for its attempt. They used to look
// each millisecond.
TEST(ClientPool, CallersThatWaitForAnotherCallersAttemptSleep) {
	const SilentPort server;
	const auto pool = Pool::create(server.address(),
		{.max_connection = 1, .connect_retry_count = 0, .client = {.connect_timeout_duration = 1'000ms}});
	const auto body = [](std::shared_ptr<Pool> pool) -> Lazy<void> {
		std::vector<Lazy<std::string>> all;
		for (int i = 0; i < 20; ++i) all.push_back(shared_echo(pool, "hello"));
		const auto answers = co_await collectAll(std::move(all));
		for (const auto& each : answers) EXPECT_THAT(each, ::testing::StartsWith("no connection")) << each;
	};
	const long before = sleeps_of_this_process();
	syncAwait(body(pool));
	EXPECT_LT(sleeps_of_this_process() - before, 300);
}

class ClientPoolOver : public ::testing::TestWithParam<std::string> {
protected:
	pool_config config() const {
		pool_config config{.connect_retry_count = 0};
		if (GetParam() == "rdma") config.ibv = rpc_test::test_ibv();
		if (GetParam() == "tls") config.ssl.emplace();
		return config;
	}
	rpc_test::Identity identity_;
};
INSTANTIATE_TEST_SUITE_P(
	Transports, ClientPoolOver, ::testing::Values("tcp", "tls", "rdma"), [](const auto& info) { return info.param; });

TEST_P(ClientPoolOver, ConnectionsAreReplacedAfterTheServerHasRestarted) {
	rpc_test::ServerProcess first("1", GetParam());
	const int port = first.port();
	const auto pool = Pool::create(first.address(), config());
	EXPECT_EQ(syncAwait(shared_echo(pool, "one")), "one");
	first.kill();
	EXPECT_NE(syncAwait(shared_echo(pool, "none")), "none");
	EXPECT_NE(syncAwait(shared_echo(pool, "none")), "none");
	EXPECT_FALSE(pool->is_alive());
	rpc_test::ServerProcess second("1", GetParam(), port);
	ASSERT_EQ(second.port(), port);
	EXPECT_EQ(syncAwait(shared_echo(pool, "two")), "two");
	EXPECT_TRUE(pool->is_alive());
}

// Without the ping the call would wait until its own timeout.
TEST_P(ClientPoolOver, AnIdleConnectionThatDoesNotAnswerIsNotUsed) {
	rpc_test::ServerProcess server("1", GetParam());
	pool_config config = this->config();
	config.host_alive_detect_duration = 1ms;
	// A slow NIC needs more than 200 ms (verbena run --adversary).
	config.client.connect_timeout_duration = 1s;
	const auto pool = Pool::create(server.address(), config);
	EXPECT_EQ(syncAwait(shared_echo(pool, "one")), "one");
	ASSERT_TRUE(server.pause());
	std::this_thread::sleep_for(2ms);  // longer than host_alive_detect_duration
	const std::string answer = syncAwait(shared_echo(pool, "two"));
	EXPECT_TRUE(answer.starts_with("no connection")) << answer;
	EXPECT_EQ(pool->total_client_count(), 0u);
	EXPECT_FALSE(pool->is_alive());
	server.resume();
	pool->clear();
	std::string again;
	for (int i = 0; i < 100 && again != "three"; ++i) again = syncAwait(shared_echo(pool, "three"));
	EXPECT_EQ(again, "three");
}

TEST(ClientPool, UnusedConnectionsAreClosed) {
	rpc_test::ServerProcess server("1", "tcp");
	const auto pool = Pool::create(server.address(), {.reuse_limit = 1, .idle_timeout = 1ms});
	const auto body = [](std::shared_ptr<Pool> pool) -> Lazy<void> {
		auto waiting = co_await begin_waits(pool, 3, 50);
		EXPECT_EQ(pool->total_client_count(), 3u);
		for (auto& each : waiting) co_await std::move(each);
	};
	syncAwait(body(pool));
	std::this_thread::sleep_for(2ms);  // longer than idle_timeout
	EXPECT_EQ(syncAwait(shared_echo(pool, "hello")), "hello");
	EXPECT_EQ(pool->total_client_count(), 1u);
}

TEST(ClientPool, ConnectingIsRetriedWhileTheServerStarts) {
	rpc_test::ServerProcess first("1", "tcp");
	const int port = first.port();
	first.kill();
	const auto pool =
		Pool::create("127.0.0.1:" + std::to_string(port), {.connect_retry_count = 500, .reconnect_wait_time = 20ms});
	std::string answer;
	std::jthread caller([&] { answer = syncAwait(shared_echo(pool, "late")); });
	while (pool->error_text().empty()) std::this_thread::yield();  // until one attempt has failed
	rpc_test::ServerProcess second("1", "tcp", port);
	caller.join();
	EXPECT_EQ(answer, "late");
}

}  // namespace
}  // namespace verbena::rpc
