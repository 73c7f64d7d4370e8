// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/processes.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace verbena::rpcbench {
namespace {

void wait_for_the_server(Board& board) { wait_for_port(board); }

TEST(Processes, TheOutcomeOfTheClientIsReturned) {
	const auto outcome = run_processes([](Board& board) { stand_by(board, 7); },
		[](Board& board) {
			EXPECT_EQ(wait_for_port(board), 7);
			board.outcome.requests = 42;
			board.measuring = board.measured = true;
			board.wait_for(board.server_reported);
		});
	ASSERT_TRUE(outcome) << outcome.error();
	EXPECT_EQ(outcome->requests, 42u);
}

// Otherwise the client would wait for a port for ever, and the parent for the client.
TEST(Processes, AServerThatDiesAtItsStartEndsTheRunWithAnError) {
	const auto died = run_processes([](Board&) { std::abort(); }, wait_for_the_server);
	ASSERT_FALSE(died);
	EXPECT_EQ(died.error(), "the server's process ended too early");
	const auto left = run_processes([](Board&) {}, wait_for_the_server);
	ASSERT_FALSE(left);
	EXPECT_EQ(left.error(), "the server's process ended too early");
}

TEST(Processes, TheReasonThatAServerReportsIsReturned) {
	const auto outcome = run_processes([](Board& board) { board.fail("no port is left"); }, wait_for_the_server);
	ASSERT_FALSE(outcome);
	EXPECT_EQ(outcome.error(), "no port is left");
}

TEST(Processes, AClientThatDiesEndsItsServer) {
	const auto outcome = run_processes([](Board& board) { stand_by(board, 7); }, [](Board&) { std::abort(); });
	ASSERT_FALSE(outcome);
	EXPECT_EQ(outcome.error(), "the client's process died");
}

}  // namespace
}  // namespace verbena::rpcbench
