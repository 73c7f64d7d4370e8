// SPDX-License-Identifier: Apache-2.0
// Tests L30 to L32 of docs/memory-model.md, which need a network that loses packets.
#include <gtest/gtest.h>

#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using wire::Opcode;
using Statuses = std::vector<Status>;

constexpr std::byte before{1}, after{2};
constexpr std::uint32_t mtu = 256;

// The word is written by a WRITE whose acknowledgement is lost; then the second program stores to
// it. The WRITE is sent again, and must not be executed again.
TEST(LitmusWithLosses, L31ARepeatedWriteDoesNotOverwriteALaterStore) {
	Pair run({}, {.path_mtu = 1});
	Region& from = run.host_a.region(8);
	Region& y = run.host_b.region(8);
	std::ranges::fill(from.bytes(), before);
	int acknowledgements = 0, writes = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		writes += packet.opcode == Opcode::rc_write_only;
		return packet.opcode == Opcode::rc_acknowledge && ++acknowledgements == 1;
	};
	run.a.post({.opcode = SendOpcode::rdma_write,
		.segments = {from.segment(0, 8)},
		.remote_address = y.at(0),
		.rkey = y.key()});
	ASSERT_EQ(run.fabric.run_until([&] { return acknowledgements == 1; }), Ended::reached);
	EXPECT_EQ(y.bytes().front(), before);
	std::ranges::fill(y.bytes(), after);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::success});
	EXPECT_GE(writes, 2);
	EXPECT_EQ(y.bytes().front(), after);
}

// A READ whose response has lost a packet is executed again from there, and has newer bytes then.
TEST(LitmusWithLosses, L30ARepeatedReadReturnsNewerBytesForItsRest) {
	Pair run({}, {.path_mtu = 1});
	Region& z = run.host_a.region(4 * mtu);
	Region& y = run.host_b.region(4 * mtu);
	std::ranges::fill(y.bytes(), before);
	int middles = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode != Opcode::rc_read_response_middle || ++middles > 1) return false;
		std::ranges::fill(y.bytes(), after);
		return true;
	};
	run.a.post({.opcode = SendOpcode::rdma_read,
		.segments = {z.segment(0, 4 * mtu)},
		.remote_address = y.at(0),
		.rkey = y.key()});
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::success});
	EXPECT_EQ(z.bytes().front(), before);
	EXPECT_EQ(z.bytes().back(), after);
}

// A request that has failed may have been executed.
TEST(LitmusWithLosses, L32AFailedRequestMayHaveBeenExecuted) {
	Pair run({}, {.path_mtu = 1});
	Region& from = run.host_a.region(8);
	Region& to = run.host_b.region(8);
	std::ranges::fill(from.bytes(), after);
	run.fabric.loses = [](const Fabric::Departure& packet) { return packet.opcode == Opcode::rc_acknowledge; };
	run.b.post_receive(1, to.segment(0, 8));
	run.a.post({.opcode = SendOpcode::send, .segments = {from.segment(0, 8)}});
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::retry_exceeded});
	EXPECT_EQ(statuses(run.b.received), Statuses{Status::success});
	EXPECT_EQ(to.bytes().front(), after);
}

}  // namespace
}  // namespace verbena::sim
