// SPDX-License-Identifier: Apache-2.0
// Clients that send what no client of ours would, beside one that makes ordinary calls.
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
			EXPECT_EQ(hostile.receive(calls), std::size_t{calls});
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

}  // namespace
}  // namespace verbena::rpc
