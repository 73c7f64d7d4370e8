// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/swarm.h"

#include <gtest/gtest.h>

#include "bench/scale/service_fixture.h"

namespace verbena::scale {
namespace {

// The result of one client over TCP, in this process.
struct OfOneClient {
	explicit OfOneClient(SwarmOptions options) {
		options.port = service.port();
		options.hosts = {"127.0.0.1"};
		options.protection = channel::ClearText{};
		options.transport = Transport::tcp;
		options.clients = 1;
		board.sampled = true;
		const auto run = run_part(options, 0, 1, board, &row, part);
		EXPECT_TRUE(run.has_value()) << run.error();
		EXPECT_EQ(row.echoes, options.messages) << part.first_failure;
	}

	testing_tools::RunningService service;
	Board board;
	ClientRow row;
	PartRows part;
};

TEST(Swarm, ClientsStayConnectedAsLongAsTheyHoldTheirConnections) {
	constexpr Nanoseconds hold = 100'000'000;
	const OfOneClient one({.messages = 3, .think = 0, .hold = hold});
	EXPECT_GE(monotonic_now(), one.board.ended + hold);
	EXPECT_EQ(one.part.connect_sum_ns, one.part.connect.max()) << "of one connection";
}

// At a rate that no client can keep up with, all messages are due at the beginning, and each waits
// for all those before it.
TEST(Swarm, ALateMessagesLatencyBeginsWhenItWasDue) {
	const OfOneClient late({.messages = 500, .think = 0, .rate = 1e12});
	const Nanoseconds took = late.board.ended - late.board.began;
	EXPECT_GT(late.part.latency_sum_ns, took);
	const OfOneClient unpaced({.messages = 500, .think = 0});
	EXPECT_LE(unpaced.part.latency_sum_ns, unpaced.board.ended - unpaced.board.began) << "each begins after the last";
}

TEST(Causes, AShortageOfThisSideIsNotTheServersFailure) {
	using channel::ConnectTrouble;
	EXPECT_EQ(cause_of(ConnectTrouble::no_descriptor), Cause::descriptors);
	EXPECT_EQ(cause_of(ConnectTrouble::no_port), Cause::ports);
	EXPECT_EQ(cause_of(ConnectTrouble::timed_out), Cause::timed_out);
	EXPECT_EQ(cause_of(ConnectTrouble::unreachable), Cause::connect);
	EXPECT_EQ(cause_of(ConnectTrouble::handshake), Cause::connect);
}

}  // namespace
}  // namespace verbena::scale
