// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/faulty_path.h"

#include <gtest/gtest.h>

#include <set>

#include "nic/adapter/adapter_fixture.h"
#include "nic/link/loopback.h"
#include "nic/wire/room.h"

namespace verbena::faults {
namespace {

using transport::QpState;
using wire::Opcode;

constexpr std::uint64_t seed = 42;
constexpr std::uint32_t first_psn = 20;  // AdapterTest's

// A queue pair whose packets take a faulty path over the loopback interface. The time is that of
// the adapter's pass.
class FaultyPathTest : public adapter::testing_tools::AdapterTest {
protected:
	FaultyPathTest() { outlet.lossless = false; }

	void use(const char* text) {
		network = std::make_unique<Network>(*parse(text), seed, 0);
		path = std::make_unique<FaultyPath>(loop.sender,
			link::UdpPathOptions{.source = link::loopback_gid(link::Family::ipv4),
				.destination = link::loopback_gid(link::Family::ipv4),
				.destination_port = loop.receiver.port(link::Family::ipv4)},
			*network, adapter);
		outlet.slots.attach(path->direction());
	}
	void write(std::uint32_t number, std::uint32_t bytes = 16, Opcode opcode = Opcode::rc_send_only) {
		const auto room = outlet.slots.reserve(bytes, 0);
		ASSERT_TRUE(room.slot);
		room.slot->set_bth(opcode, {0x777}, {first_psn + number}, 3 << wire::slot_mtu_shift);
		room.slot->payload_line = room.payload_line;
		std::fill_n(room.payload, bytes, std::byte(number));
		outlet.slots.publish(room.slot, bytes, {qp.qpn});
	}
	bool transmit(Nanoseconds now) {
		adapter.begin_pass(now);
		return path->transmit();
	}
	// The numbers of the packets that arrive, in their order.
	std::vector<std::uint32_t> arrivals(std::size_t expected) {
		std::vector<std::uint32_t> numbers;
		for (const link::Arrival& arrival : loop.receive(expected))
			numbers.push_back(arrival.slot.psn().value - first_psn);
		return numbers;
	}
	// The summary without its seed and the count of packets.
	std::string faults() const {
		const std::string all = network->summary();
		const std::size_t at = all.find(" sent");
		return all.substr(at + 5);
	}

	link::Loopback loop{link::Family::ipv4};
	transport::QueuePair& qp = connected();
	std::unique_ptr<Network> network;
	std::unique_ptr<FaultyPath> path;
};

TEST_F(FaultyPathTest, WithoutAFaultEveryPacketArrivesOnceAndInOrder) {
	use("loss=0");
	write(0, 3000);  // three packets
	write(3);
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(arrivals(4), (std::vector<std::uint32_t>{0, 1, 2, 3}));
	EXPECT_EQ(network->summary(), "seed 42, 4 packets sent");
}

TEST_F(FaultyPathTest, AMessageAboutRoomMeetsNoFault) {
	use("loss=100%");
	const wire::Mad question = wire::write_room_message({.nonce = 1, .asked = {2}, .asker = {3}});
	ASSERT_TRUE(adapter.send_management(outlet, {}, question));
	EXPECT_TRUE(transmit(1000));
	const auto arrived = loop.receive(1);
	ASSERT_EQ(arrived.size(), 1u);
	EXPECT_TRUE(std::ranges::equal(arrived[0].payload, question));
	EXPECT_EQ(network->summary(), "seed 42, 0 packets sent");
}

TEST_F(FaultyPathTest, ExactlyThePacketsThatTheSeedNamesAreLost) {
	use("loss=30%");
	std::vector<std::uint32_t> expected;
	for (std::uint32_t n = 0; n < 100; ++n) {
		write(n);
		const Identity identity{
			.queue_pair = 1, .number = n, .opcode = static_cast<std::uint8_t>(Opcode::rc_send_only)};
		if (!fate_of({.loss = 0.3}, seed, identity, 0).lost) expected.push_back(n);
	}
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(arrivals(expected.size()), expected);
	EXPECT_EQ(faults(), ", " + std::to_string(100 - expected.size()) + " lost");
}

TEST_F(FaultyPathTest, APacketThatIsSentAgainGetsThrough) {
	use("loss=50%");
	for (int times = 0; times < 40; ++times) write(7);
	transmit(1000);
	EXPECT_FALSE(arrivals(1).empty());
}

TEST_F(FaultyPathTest, ADuplicateArrivesTwice) {
	use("dup=100%");
	write(5);
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(arrivals(2), (std::vector<std::uint32_t>{5, 5}));
	EXPECT_EQ(faults(), ", 1 duplicated");
}

TEST_F(FaultyPathTest, ACorruptedPacketIsRefusedByItsIcrc) {
	use("corrupt=100%");
	for (std::uint32_t n = 0; n < 20; ++n) write(n, 400);
	EXPECT_TRUE(transmit(1000));
	use("corrupt=0");
	write(99);
	EXPECT_TRUE(transmit(1000));
	// A flipped bit that the ICRC does not cover harms nothing: one byte of the BTH.
	const auto numbers = arrivals(1);
	ASSERT_FALSE(numbers.empty());
	EXPECT_EQ(numbers.back(), 99u);
	EXPECT_GE(loop.receiver.counters().packets_received, 19u);
	EXPECT_LE(numbers.size(), 2u);
}

TEST_F(FaultyPathTest, ADelayedPacketLeavesWhenItsTimeHasCome) {
	use("delay=2ms");
	write(1);
	EXPECT_FALSE(transmit(1'000'000));
	EXPECT_TRUE(outlet.slots.drained());  // the ring has room meanwhile
	EXPECT_EQ(path->due(), 3'000'000u);
	EXPECT_FALSE(transmit(2'999'999));
	EXPECT_EQ(loop.sender.counters().packets_sent, 0u);
	EXPECT_TRUE(transmit(3'000'000));
	EXPECT_EQ(path->due(), never);
	EXPECT_EQ(arrivals(1), std::vector<std::uint32_t>{1});
}

TEST_F(FaultyPathTest, AReorderedPacketIsOvertaken) {
	use("reorder=50%");
	for (std::uint32_t n = 0; n < 32; ++n) write(n);
	EXPECT_FALSE(transmit(1'000'000));
	EXPECT_GE(path->due(), 1'000'000 + reorder_min);
	EXPECT_TRUE(transmit(1'000'000 + reorder_max));
	const auto numbers = arrivals(32);
	EXPECT_EQ(std::set(numbers.begin(), numbers.end()).size(), 32u);
	EXPECT_FALSE(std::ranges::is_sorted(numbers));
}

TEST_F(FaultyPathTest, ASlowLineSendsOnePacketAfterTheOther) {
	use("rate=1M");
	write(1, 1000);
	write(2, 1000);
	EXPECT_FALSE(transmit(0));
	const Nanoseconds first = path->due();
	EXPECT_GT(first, 8'000'000u);
	EXPECT_FALSE(transmit(first));
	EXPECT_EQ(path->due(), 2 * first);
	EXPECT_TRUE(transmit(2 * first));
}

TEST_F(FaultyPathTest, NothingArrivesDuringAPartition) {
	use("partition=1ms..2ms");
	write(1);
	transmit(999'999);
	write(2);
	transmit(1'000'000);
	write(3);
	transmit(2'000'000);
	EXPECT_EQ(arrivals(2), (std::vector<std::uint32_t>{1, 3}));
	EXPECT_EQ(faults(), ", 1 lost in a partition");
}

TEST_F(FaultyPathTest, APacketThatFindsTheLineFullIsLost) {
	use("delay=1s");
	for (std::uint32_t n = 0; n <= Line::packets_max; ++n) {
		write(n);
		transmit(0);
	}
	EXPECT_EQ(faults(), ", 1 lost on a full line");
}

TEST_F(FaultyPathTest, AQueuePairThatBreaksFlushesItsRequests) {
	use("qp-error=100%");
	write(1);
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(qp.state, QpState::error);
	EXPECT_EQ(loop.sender.counters().packets_sent, 0u);
	ASSERT_EQ(adapter.context().raised_events.size(), 1u);
	EXPECT_EQ(adapter.context().raised_events[0].kind, transport::AsyncEvent::qp_fatal);
	write(2);  // it was in the ring before
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(adapter.context().raised_events.size(), 1u);
}

TEST_F(FaultyPathTest, AFilterNamesAPeerOrAQueuePair) {
	use("loss=100%;peer=127.0.0.1,loss=0");
	write(1);
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(arrivals(1), std::vector<std::uint32_t>{1});
	use("qp=1,loss=100%");
	write(2);
	EXPECT_TRUE(transmit(1000));
	EXPECT_EQ(faults(), ", 1 lost");
}

TEST_F(FaultyPathTest, PacketsThatAreDelayedLeaveAtTheEndOfTheProcess) {
	use("delay=60s");
	write(1);
	EXPECT_FALSE(transmit(1000));
	path->finish();
	EXPECT_EQ(arrivals(1), std::vector<std::uint32_t>{1});
	EXPECT_EQ(path->due(), never);
}

TEST_F(FaultyPathTest, OnlyTheNextRequestThatTakesAReceiveIsRefused) {
	use("rnr=100%");
	const auto asks = [&](Opcode opcode, std::uint32_t psn) {
		return network->refuses(adapter, qp, request(qp, psn, opcode));
	};
	EXPECT_TRUE(asks(Opcode::rc_send_only, 10));
	EXPECT_TRUE(asks(Opcode::rc_write_only_imm, 10));
	EXPECT_FALSE(asks(Opcode::rc_write_only, 10));
	EXPECT_FALSE(asks(Opcode::rc_send_last, 10));
	EXPECT_FALSE(asks(Opcode::rc_send_only, 11));  // after a gap
	EXPECT_FALSE(asks(Opcode::rc_send_only, 9));  // a duplicate
	EXPECT_FALSE(asks(Opcode::rc_acknowledge, 10));
	EXPECT_EQ(faults(), ", 2 answered by RNR NAKs");
}

}  // namespace
}  // namespace verbena::faults
