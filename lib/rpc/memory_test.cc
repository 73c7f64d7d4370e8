// SPDX-License-Identifier: Apache-2.0
// The memory that connections cost their server, and the fate of requests that find none.
#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include <fstream>

#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/identity.h"
#include "lib/rpc/testing/raw_client.h"
#include "lib/rpc/testing/server_process.h"

namespace verbena::rpc {
namespace {

// A sanitizer's own memory is counted with the program's, so under one only the answers are
// checked.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_memory_comparable = false;
#else
constexpr bool is_memory_comparable = true;
#endif

std::uint64_t resident_kib(pid_t process) {
	std::ifstream status("/proc/" + std::to_string(process) + "/status");
	std::string word;
	std::uint64_t number = 0;
	while (status >> word)
		if (word == "VmRSS:") status >> number;
	return number;
}

// Connects and makes one call. Returns an empty string, or the reason for a failure.
Lazy<std::string> connect_one(Client& client, std::string address) {
	const err_code failed = co_await client.connect(std::move(address));
	if (failed) co_return client.error_text();
	const auto sum = co_await client.call<rpc_test::add>(1, 2);
	co_return sum ? std::string() : sum.error().msg;
}

// VERBENA_TEST_CONNECTIONS sets another number than 1,000 (100 under a sanitizer). 10,000 take one
// to two minutes, more than a test may, and run by `make slow`.
TEST(ServerMemory, AThousandIdleConnectionsStayWithin64MiB) {
	const rpc_test::Identity identity;
	const char* const wanted = std::getenv("VERBENA_TEST_CONNECTIONS");
	const std::size_t usual = is_memory_comparable ? 1000 : 100;
	const std::size_t count = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : usual;
	rpc_test::ServerProcess server("1", "rdma");
	std::vector<std::unique_ptr<Client>> clients;
	IoThread& thread = IoThreads::of_process().next();
	const auto add = [&](std::size_t more) {
		std::vector<Lazy<std::string>> connecting;
		for (std::size_t i = 0; i < more; ++i) {
			Client& client = *clients.emplace_back(std::make_unique<Client>(thread));
			client.init_ibv(rpc_test::test_ibv());
			connecting.push_back(connect_one(client, server.address()));
		}
		for (const std::string& failure : syncAwait(collectAll(std::move(connecting)))) ASSERT_EQ(failure, "");
	};
	add(1);
	const std::uint64_t before = resident_kib(server.pid());
	while (clients.size() < count + 1 && !HasFailure()) add(std::min<std::size_t>(100, count + 1 - clients.size()));
	const std::uint64_t after = resident_kib(server.pid());
	if (is_memory_comparable) {
		EXPECT_LT(after - before, 64 * 1024 * count / 1000) << (after - before) / count << " KiB each";
	}
	for (const auto& client : clients) ASSERT_FALSE(client->has_closed()) << client->error_text();
	EXPECT_TRUE(syncAwait(clients.front()->call<rpc_test::add>(1, 1)));
	EXPECT_TRUE(syncAwait(clients.back()->call<rpc_test::add>(1, 1)));
}

// Sends eight requests of 8 MB to a server that has 12 MiB. Returns the number of right answers.
Lazy<std::size_t> send_too_much(Client& client) {
	const std::string attachment(8'000'000, 'a');
	std::vector<Lazy<async_rpc_result<std::uint64_t>>> under_way;
	for (int i = 0; i < 8; ++i)
		under_way.push_back(co_await client.send_request_with_attachment<rpc_test::attachment_size_later>(attachment));
	const auto results = co_await collectAll(std::move(under_way));
	co_return static_cast<std::size_t>(
		std::ranges::count_if(results, [&](const auto& each) { return each && each->result() == attachment.size(); }));
}

TEST(ServerMemory, AboveTheWatermarkRequestsWait) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "rdma-wait");
	Client client;
	client.init_ibv(rpc_test::test_ibv());
	ASSERT_FALSE(syncAwait(client.connect(server.address()))) << client.error_text();
	EXPECT_EQ(syncAwait(send_too_much(client)), 8u);
	EXPECT_EQ(server.stop(), 0);
}

TEST(ServerMemory, WithWatermarkCloseOnlyTheGreedyConnectionIsClosed) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "rdma-close");
	Client greedy, modest;
	for (Client* each : {&greedy, &modest}) {
		each->init_ibv(rpc_test::test_ibv());
		ASSERT_FALSE(syncAwait(each->connect(server.address()))) << each->error_text();
	}
	EXPECT_LT(syncAwait(send_too_much(greedy)), 8u);
	EXPECT_TRUE(greedy.has_closed());
	EXPECT_EQ(syncAwait(modest.call<rpc_test::add>(1, 2)).value(), 3);
}

// Returns a message of the frame and `mib` MiB of items behind it, which the server ignores,
// because there is no such stream.
Buffer with_ignored_items(Buffer frame, int mib) {
	const Buffer item = rpc_test::frame_bytes({.kind = FrameKind::item, .sequence = 0xffffff00}, 1 << 20);
	for (int i = 0; i < mib; ++i) rpc_test::append(frame, item);
	return frame;
}

TEST(ServerMemory, ACallDoesNotKeepTheMessageOfWhichItIsASmallPart) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "tcp");
	rpc_test::RawClient client(server.address());
	const std::uint64_t before = resident_kib(server.pid());
	constexpr std::uint32_t calls = 24;
	for (std::uint32_t i = 0; i < calls; ++i)
		ASSERT_TRUE(client.send(with_ignored_items(
			rpc_test::frame_bytes(
				{.kind = FrameKind::request, .sequence = i, .function = Function<rpc_test::until_cancelled>::id}),
			8)));
	ASSERT_TRUE(client.send(rpc_test::frame_bytes({.kind = FrameKind::ping})));
	EXPECT_EQ(client.receive(1).size(), 1u) << "everything was read, and no call was answered";
	if (is_memory_comparable) {
		EXPECT_LT(resident_kib(server.pid()), before + (64 << 10)) << calls << " messages of 8 MiB";
	}
}

TEST(ServerMemory, UnreadItemsOfOneByteTakeNoMoreThanTheWindowsOfTheirStreams) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "tcp");
	rpc_test::RawClient client(server.address());
	const std::uint64_t before = resident_kib(server.pid());
	constexpr std::uint32_t streams = 250, window = 256 << 10;
	for (std::uint32_t i = 1; i <= streams; ++i) {
		const Buffer item = rpc_test::frame_bytes({.kind = FrameKind::item, .sequence = i}, 1);
		Buffer message = rpc_test::frame_bytes(
			{.kind = FrameKind::open, .sequence = i, .function = Function<rpc_test::read_when_allowed>::id});
		for (std::size_t sent = 0; sent < window; sent += item.size()) rpc_test::append(message, item);
		ASSERT_TRUE(client.send(message));
	}
	ASSERT_TRUE(client.send(rpc_test::frame_bytes({.kind = FrameKind::ping})));
	EXPECT_EQ(client.receive(streams + 1).size(), streams + 1) << "a window for each, and the pong";
	if (is_memory_comparable) {
		EXPECT_LT(resident_kib(server.pid()), before + streams * (window >> 10)) << "each filled its window";
	}
}

TEST(ServerMemory, AnUnsentResponseDoesNotKeepTheMessageOfWhichItIsASmallPart) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "tcp");
	rpc_test::RawClient client(server.address());
	const std::uint64_t before = resident_kib(server.pid());
	constexpr std::uint32_t calls = 60, size = 512 << 10;
	Buffer request = rpc_test::frame_bytes(
		{.kind = FrameKind::request, .function = Function<rpc_test::attachment_back>::id, .attachment_length = size});
	request.resize(request.size() + size);
	const Buffer message = with_ignored_items(request, 7);
	for (std::uint32_t i = 0; i < calls; ++i) ASSERT_TRUE(client.send(message));
	// Nothing was received yet: some responses are in the kernel, and the others in the server.
	if (is_memory_comparable) {
		EXPECT_LT(resident_kib(server.pid()), before + (96 << 10)) << "30 MiB of responses to 450 MiB";
	}
	EXPECT_EQ(client.receive(calls).size(), std::size_t{calls});
}

// Sends a registered attachment of `size` bytes to the server and back, and a small call right
// behind it. Returns whether both results were right.
Lazy<bool> there_and_back(Client& client, std::size_t size, char fill) {
	channel::Place place(client.memory()->take(size));
	std::ranges::fill(place.bytes(), static_cast<std::byte>(fill));
	std::string answer(size, '\0');
	request_config_t config;
	config.request_place = &place;
	config.resp_attachment_buf = answer;
	auto sent = co_await client.send_request<rpc_test::attachment_back>(config);
	const auto small = co_await client.call<rpc_test::add>(static_cast<int>(fill), 1);
	const auto back = co_await std::move(sent);
	co_return small && *small == fill + 1 && back&& answer == std::string(size, fill);
}

Lazy<std::size_t> many_there_and_back(Client& client, std::size_t count, std::size_t size) {
	co_await client.call<rpc_test::add>(1, 1);  // continues on the client's I/O thread
	std::vector<Lazy<bool>> under_way;
	for (std::size_t i = 0; i < count; ++i)
		under_way.push_back(there_and_back(client, size, static_cast<char>('a' + i)));
	const auto good = co_await collectAll(std::move(under_way));
	co_return static_cast<std::size_t>(std::ranges::count(good, true));
}

TEST(RegisteredAttachments, AreUnderWayTogetherAndArriveWhole) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "rdma");
	Client client;
	client.init_ibv(rpc_test::test_ibv());
	ASSERT_FALSE(syncAwait(client.connect(server.address()))) << client.error_text();
	for (const std::size_t size : {1'000, 20'000, 300'000, 3'000'000})
		EXPECT_EQ(syncAwait(many_there_and_back(client, 16, rpc_test::at_most_largest(size))), 16u) << size;
	EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace verbena::rpc
