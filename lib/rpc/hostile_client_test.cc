// SPDX-License-Identifier: Apache-2.0
// Clients that send what no client of ours would, beside one that makes ordinary calls.
#include <algorithm>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/identity.h"
#include "lib/rpc/testing/raw_client.h"
#include "lib/rpc/testing/server_process.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using rpc_test::frame_bytes;
using rpc_test::RawClient;

// The server has one thread. A client that sees a part of the message's calls has had a turn
// between two of them; this may need several messages on a busy processor.
TEST(HostileClient, AMessageOfManyFramesDoesNotKeepOtherClientsFromTheirTurns) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "tcp");
	Client neighbour;
	ASSERT_FALSE(syncAwait(neighbour.connect(server.address()))) << neighbour.error_text();
	constexpr int calls = 100'000;
	Buffer message;
	for (std::uint32_t i = 0; i < calls; ++i)
		rpc_test::append(message,
			frame_bytes({.kind = FrameKind::request, .sequence = i, .function = Function<rpc_test::nothing>::id}));
	const auto deadline = std::chrono::steady_clock::now() + 20s;
	bool between = false;
	for (int sent = 0; !between && std::chrono::steady_clock::now() < deadline;) {
		sent += calls;
		std::thread flood([&] {
			RawClient hostile(server.address());
			EXPECT_TRUE(hostile.send(message));
			EXPECT_EQ(hostile.receive(calls).size(), std::size_t{calls});
		});
		for (int seen = 0; seen < sent && std::chrono::steady_clock::now() < deadline;) {
			const auto count = syncAwait(neighbour.call<rpc_test::count_of_nothing>());
			EXPECT_TRUE(count) << count.error().msg;
			if (!count) break;
			seen = *count;
			between = between || seen % calls != 0;
		}
		flood.join();
	}
	EXPECT_TRUE(between) << "each message was handled as a whole";
}

// Each stream is opened and gets an item of 1 MiB, which its function does not read.
TEST(HostileClient, AnUnreadItemAboveTheConnectionsLimitEndsItsStreamAndNoOther) {
	const rpc_test::Identity identity;
	Server server({.address = "127.0.0.1",
		.port = 0,
		.thread_num = 1,
		.limits = {.items_max = (3 << 20) + (64 << 10)},
		.log = [](std::string_view) {}});
	server.register_handler<rpc_test::read_when_allowed, rpc_test::tell>();
	const auto started = server.async_start();
	ASSERT_FALSE(started.hasResult()) << server.error_text();
	rpc_test::told = false;
	RawClient client("127.0.0.1:" + std::to_string(server.port()));
	constexpr std::size_t streams = 5;
	for (std::uint32_t i = 1; i <= streams; ++i) {
		ASSERT_TRUE(client.send(frame_bytes(
			{.kind = FrameKind::open, .sequence = i, .function = Function<rpc_test::read_when_allowed>::id})));
		// The body as a string: str 32 (0xdb) and its length.
		Buffer item = frame_bytes({.kind = FrameKind::item, .sequence = i}, 1 << 20);
		constexpr std::uint32_t length = (1 << 20) - 5;
		item[FrameHeader::bytes] = std::byte{0xdb};
		for (int byte = 0; byte < 4; ++byte)
			item[FrameHeader::bytes + 1 + byte] = static_cast<std::byte>(length >> (24 - 8 * byte));
		ASSERT_TRUE(client.send(item));
		ASSERT_TRUE(client.send(frame_bytes({.kind = FrameKind::done, .sequence = i})));
	}
	std::vector<std::uint32_t> ended;
	// A window for each stream, and the errors.
	for (const FrameHeader& each : client.receive(streams + 2)) {
		if (each.kind != FrameKind::response) continue;
		EXPECT_EQ(each.code, static_cast<std::uint16_t>(errc::message_too_large));
		ended.push_back(each.sequence);
	}
	EXPECT_EQ(ended, (std::vector<std::uint32_t>{4, 5})) << "three items find room";
	EXPECT_EQ(server.totals().over_budget, 2u);
	// The other streams go on, and so does the connection.
	Client neighbour;
	ASSERT_FALSE(syncAwait(neighbour.connect("127.0.0.1:" + std::to_string(server.port()))));
	ASSERT_TRUE(syncAwait(neighbour.call<rpc_test::tell>(true)));
	std::vector<std::uint32_t> answered;
	while (answered.size() < 3) {
		const auto frames = client.receive(1);
		ASSERT_FALSE(frames.empty()) << "the connection has ended";
		for (const FrameHeader& each : frames) {
			if (each.kind != FrameKind::response) continue;
			EXPECT_EQ(each.code, 0);
			answered.push_back(each.sequence);
		}
	}
	std::ranges::sort(answered);
	EXPECT_EQ(answered, (std::vector<std::uint32_t>{1, 2, 3}));
	EXPECT_EQ(server.totals().faults, 0u);
}

}  // namespace
}  // namespace verbena::rpc
