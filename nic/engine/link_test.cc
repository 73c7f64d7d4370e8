// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "nic/engine/rendezvous_fixture.h"

namespace verbena::engine {
namespace {

constexpr Nanoseconds stuck = 20 * us;  // a peer without a pass for this long is kicked

struct NoPackets : ForwardedPackets {
	void take_forwarded(std::span<const std::byte>, std::optional<uid_t>) override {}
};

Mapped<wire::Direction> empty_direction() {
	void* at = mmap(nullptr, sizeof(wire::Direction), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_NE(at, MAP_FAILED);
	return Mapped<wire::Direction>(static_cast<wire::Direction*>(at));
}

// The link to a process that the test plays, with the process's page, its doorbell and both rings.
class LinkToPeer : public testing::Test {
protected:
	Peer make_peer() {
		int ends[2];
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		peers_socket = Descriptor(ends[1]);
		Peer made;
		made.token = process.token;
		made.user = geteuid();
		made.socket = Descriptor(ends[0]);
		made.doorbell = Descriptor(dup(process.doorbell.get()));
		made.progress = *map_progress_page(process.page.fd.get());
		made.outgoing = empty_direction();
		made.incoming = empty_direction();
		return made;
	}
	void publish() {
		const auto reserved = link.outlet.slots.reserve(0, 0);
		ASSERT_TRUE(reserved.slot);
		link.outlet.slots.publish(reserved.slot, 0);
	}
	// A request, with an acknowledgement or without one, after which the engine may kick.
	void request(Nanoseconds now, bool acknowledged = false, bool polls = true) {
		publish();
		link.outlet.acknowledged = acknowledged;
		link.kick_if_wanted(now, polls);
	}
	void ask_for_requests() {
		process.page.object->request_epoch.store(next_epoch);
		next_epoch += 2;
	}
	// The peer makes a pass, and then none, so that it is kicked. Returns the time of the kick.
	Nanoseconds get_stuck(Nanoseconds now) {
		process.page.object->passes.fetch_add(1);
		link.kick_if_stuck(now);
		link.kick_if_stuck(now + stuck);
		return now + stuck;
	}
	// Returns whether there was something to take in.
	bool pass(Nanoseconds now) {
		NoPackets none;
		adapter.begin_pass(now);
		return link.receive(adapter, none);
	}
	std::uint64_t kicks() {
		std::uint64_t count = 0;
		return read(process.doorbell.get(), &count, sizeof count) == sizeof count ? count : 0;
	}

	adapter::ChannelAdapter adapter{1};
	Process process{7};
	Descriptor peers_socket;
	std::uint32_t next_epoch = 1;  // odd: the peer asks
	Link link{make_peer()};
};

TEST_F(LinkToPeer, APeerThatPollsIsNotKicked) {
	request(1);
	EXPECT_EQ(kicks(), 0u);
}

TEST_F(LinkToPeer, APeerThatAsksForRequestsIsKickedOnceEachTime) {
	ask_for_requests();
	request(1);
	EXPECT_EQ(kicks(), 1u);
	request(2);
	EXPECT_EQ(kicks(), 0u);
	ask_for_requests();
	request(3);
	EXPECT_EQ(kicks(), 1u);
}

// Two programs in ib_write_lat kicked each other while each of them polled for the acknowledgement
// that came with the request.
TEST_F(LinkToPeer, APeerThatGetsAnAcknowledgementWithTheRequestIsNotKicked) {
	ask_for_requests();
	request(1, true);
	EXPECT_EQ(kicks(), 0u);
	request(2);
	EXPECT_EQ(kicks(), 1u);
}

// Programs that wait for the completion of each fourth WRITE waited for a tick of the peer's
// progress thread, because neither polled.
TEST_F(LinkToPeer, UnlessThisProcessDoesNotPollEither) {
	ask_for_requests();
	request(1, true, false);
	EXPECT_EQ(kicks(), 1u);
}

TEST_F(LinkToPeer, APeerThatSleepsIsKickedForAnAcknowledgementToo) {
	process.page.object->armed_epoch.store(1);
	link.outlet.acknowledged = true;
	link.kick_if_wanted(1, true);
	EXPECT_EQ(kicks(), 1u);
}

TEST_F(LinkToPeer, TwelveKicksInTwoMillisecondsShowThatThePeerNeedsThem) {
	publish();
	Nanoseconds now = ms;
	for (int i = 0; i < 12; ++i) {
		EXPECT_FALSE(link.outlet.peer_needs_kicks);
		now = get_stuck(now);
		EXPECT_EQ(kicks(), 1u);
	}
	EXPECT_TRUE(link.outlet.peer_needs_kicks);
	EXPECT_FALSE(pass(now + Spell::first - 1));
	EXPECT_TRUE(link.outlet.peer_needs_kicks);
	EXPECT_FALSE(pass(now + Spell::first));
	EXPECT_FALSE(link.outlet.peer_needs_kicks);
}

TEST_F(LinkToPeer, KicksThatThePeerAskedForCountAsWell) {
	for (Nanoseconds now = 1; now <= 12; ++now) {
		EXPECT_FALSE(link.outlet.peer_needs_kicks);
		ask_for_requests();
		request(now);
	}
	EXPECT_TRUE(link.outlet.peer_needs_kicks);
}

// Two programs that write to each other, and poll, disturb each other with some kicks. They fell
// into step, and had two thirds of their rate.
TEST_F(LinkToPeer, APeerThatIsKickedNowAndThenDoesNotNeedThem) {
	publish();
	for (Nanoseconds now = ms; now < 100 * ms; now += ms / 4) get_stuck(now);
	EXPECT_EQ(kicks(), 396u);
	EXPECT_FALSE(link.outlet.peer_needs_kicks);
}

TEST_F(LinkToPeer, APassTakesInNoMoreThanItsBudget) {
	wire::SlotWriter peer;
	peer.attach(link.peer().incoming.get());
	for (std::uint32_t i = 0; i <= Link::slots_a_pass; ++i) {
		const auto reserved = peer.reserve(0, 0);
		ASSERT_TRUE(reserved.slot);
		reserved.slot->set_bth(wire::Opcode::uc_send_only, {0x100 + i}, {i}, 3 << wire::slot_mtu_shift);
		reserved.slot->payload_line = reserved.payload_line;
		peer.publish(reserved.slot, 0);
	}
	EXPECT_TRUE(pass(1));
	EXPECT_EQ(adapter.context().counters.dropped_no_qp, Link::slots_a_pass);
	EXPECT_TRUE(pass(1));
	EXPECT_EQ(adapter.context().counters.dropped_no_qp, Link::slots_a_pass + 1);
	EXPECT_FALSE(pass(1));
}

}  // namespace
}  // namespace verbena::engine
