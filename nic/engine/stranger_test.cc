// SPDX-License-Identifier: Apache-2.0
// Links with processes of other users. These tests run as one user: a process becomes a stranger by
// a directory that says that this one is another user.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "nic/engine/link.h"
#include "nic/engine/rendezvous_fixture.h"

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;
using Step = PendingPeer::Step;

const Directory as_another{geteuid() + 1, std::nullopt, Peers::host};
const Directory as_another_that_allows_none{geteuid() + 1, std::nullopt, Peers::own};

class Strangers : public testing::Test {
protected:
	Process alice{0xa11ce}, bob{0xb0b};
	const BlockName bobs = *claim_block(Directory(geteuid(), std::nullopt, Peers::host));
	const int gate = bobs.listeners.back().get();  // at the public name
	std::expected<Peer, int> at_alice = std::unexpected(-1);
	Peer at_bob;

	std::expected<PendingPeer, int> accept() {
		EXPECT_TRUE(becomes_readable(gate));
		return PendingPeer::accept(gate, bob.identity(), as_another);
	}
	// The error of Alice's connection to Bob, 0 if it is made.
	int connect(std::chrono::milliseconds timeout, StrangerPatience& patience) {
		const auto made = connect_to(alice.identity(), as_another, Place::block(bobs.block), timeout, &patience);
		return made ? 0 : made.error();
	}
	// Alice finds Bob at his public name alone, and each takes the other for a stranger.
	void link() {
		std::thread bobs_engine([this] {
			auto pending = accept();
			ASSERT_TRUE(pending && pending->is_stranger());
			ASSERT_TRUE(becomes_readable(pending->fd()));
			ASSERT_EQ(pending->on_readable(never_linked), Step::done);
			at_bob = pending->take();
		});
		at_alice = connect_to(alice.identity(), as_another, Place::block(bobs.block), 10s);
		bobs_engine.join();
		ASSERT_TRUE(at_alice) << std::strerror(at_alice.error());
	}
};

TEST_F(Strangers, ExchangeRingsAndNoDoorbells) {
	link();
	for (const Peer* peer : {&*at_alice, &at_bob}) {
		EXPECT_TRUE(peer->is_stranger);
		EXPECT_EQ(peer->user, geteuid());
		EXPECT_FALSE(peer->doorbell);
		EXPECT_TRUE(peer->incoming && peer->outgoing && peer->progress);
	}
}

TEST_F(Strangers, AreNeitherFoundNorAdmittedByDefault) {
	const auto refused = connect_to(alice.identity(), as_another_that_allows_none, Place::block(bobs.block), 10s);
	EXPECT_EQ(refused.error(), ECONNREFUSED);
	std::thread client([&] {
		EXPECT_EQ(connect_to(alice.identity(), as_another, Place::block(bobs.block), 10s).error(), ECONNRESET);
	});
	ASSERT_TRUE(becomes_readable(gate));
	EXPECT_EQ(PendingPeer::accept(gate, bob.identity(), as_another_that_allows_none).error(), EPERM);
	client.join();
}

TEST_F(Strangers, MayNotSendADoorbellBecauseTheyCouldMakeItBlock) {
	// A process of Bob's own user sends one.
	std::thread client([&] {
		const Directory as_bobs_user(geteuid(), std::nullopt, Peers::host);
		EXPECT_EQ(connect_to(alice.identity(), as_bobs_user, Place::block(bobs.block), 10s).error(), ECONNRESET);
	});
	const int plain = bobs.listeners.front().get();
	ASSERT_TRUE(becomes_readable(plain));
	{
		auto pending = PendingPeer::accept(plain, bob.identity(), as_another);
		ASSERT_TRUE(pending);
		ASSERT_TRUE(becomes_readable(pending->fd()));
		EXPECT_EQ(pending->on_readable(never_linked), Step::failed);
		EXPECT_EQ(pending->error(), EPROTO);
	}
	client.join();
}

// One that left a greeting unanswered for each of its blocks held up all new links.
TEST_F(Strangers, WhoAreSilentAreNotAskedAgainForAWhile) {
	StrangerPatience patience;
	const Nanoseconds begun = monotonic_now();
	EXPECT_EQ(connect(20ms, patience), ETIMEDOUT);  // Bob's engine does not run
	EXPECT_LT(patience.left(geteuid(), begun), StrangerPatience::full - 15'000'000);
	ASSERT_TRUE(accept());
	patience.spend(geteuid(), StrangerPatience::full, monotonic_now());
	const auto start = std::chrono::steady_clock::now();
	EXPECT_EQ(connect(10s, patience), ETIMEDOUT);
	EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);  // the patience with one that is asked
}

// A server that connected to each of them waited 2 s each time, and its other clients with it.
TEST_F(Strangers, WhoKeepTheirQueueFullAreNotWaitedForAgain) {
	std::vector<Descriptor> held;
	const SocketName name = public_name(Place::block(bobs.block));
	for (;;) {
		Descriptor caller(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
		ASSERT_TRUE(caller);
		if (::connect(caller.get(), name.get(), name.length) != 0) break;
		held.push_back(std::move(caller));
	}
	StrangerPatience patience;
	const Nanoseconds begun = monotonic_now();
	EXPECT_EQ(connect(20ms, patience), ETIMEDOUT);
	EXPECT_LT(patience.left(geteuid(), begun), StrangerPatience::full - 15'000'000);
	patience.spend(geteuid(), StrangerPatience::full, monotonic_now());
	const auto start = std::chrono::steady_clock::now();
	EXPECT_EQ(connect(10s, patience), ETIMEDOUT);
	EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
}

// A user that was silent is asked again after a while.
TEST_F(Strangers, WhoWereSilentAreHeardOnceTheyAnswer) {
	StrangerPatience patience;
	patience.spend(geteuid(), StrangerPatience::full, monotonic_now() - 15'000'000'000);
	std::thread bobs_engine([this] {
		for (;;) {  // until the one who waits for an answer
			auto pending = accept();
			ASSERT_TRUE(pending && becomes_readable(pending->fd()));
			if (pending->on_readable(never_linked) == Step::done) return;
		}
	});
	EXPECT_EQ(connect(10s, patience), 0);
	bobs_engine.join();
}

TEST_F(Strangers, WhoseUserHasItsShareOfLinksAreClosed) {
	std::thread bobs_engine([this] {
		auto pending = accept();
		ASSERT_TRUE(pending && becomes_readable(pending->fd()));
		const auto no_room = [](uid_t, std::uint64_t) { return std::unexpected(EUSERS); };
		EXPECT_EQ(pending->on_readable(no_room), Step::failed);
		EXPECT_EQ(pending->error(), EUSERS);
	});
	EXPECT_EQ(connect_to(alice.identity(), as_another, Place::block(bobs.block), 10s).error(), ECONNRESET);
	bobs_engine.join();
}

TEST_F(Strangers, GetNoRightToMapFilesWhateverTheySay) {
	link();
	Link bobs_link(std::move(at_bob));
	at_alice->incoming->consumer_maps_files.store(1);
	EXPECT_FALSE(bobs_link.outlet.slots.can_share());
}

TEST_F(Strangers, HaveNoTokenInCommonWithAnotherPeer) {
	link();
	const Link bobs_link(std::move(at_bob));
	EXPECT_NE(bobs_link.outlet.peer, alice.token);
}

TEST_F(Strangers, ThatKickWithoutNeedAreLeftAlone) {
	link();
	Link bobs_link(std::move(at_bob));
	const int socket = at_alice->socket.get();
	Nanoseconds now = second;
	int noise = 0;
	for (std::size_t i = 0; i < 1000; ++i, now += 10'000) {
		ASSERT_EQ(send(socket, "", i % 2, MSG_DONTWAIT | MSG_NOSIGNAL), static_cast<ssize_t>(i % 2));
		const Link::Heard heard = bobs_link.hear(now);
		ASSERT_NE(heard, Link::Heard::end) << "an empty message is not the end of the socket";
		noise += heard == Link::Heard::noise;
	}
	EXPECT_GT(noise, 900);
	ASSERT_EQ(send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
	EXPECT_EQ(bobs_link.hear(now + second), Link::Heard::kick) << "a kick a second is no noise";
}

TEST_F(Strangers, ThatEndAreNoticedBehindTheirKicks) {
	link();
	Link bobs_link(std::move(at_bob));
	ASSERT_EQ(send(at_alice->socket.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
	EXPECT_FALSE(bobs_link.peer_is_gone());
	at_alice->socket = Descriptor();
	EXPECT_TRUE(bobs_link.peer_is_gone());
	EXPECT_EQ(bobs_link.hear(1), Link::Heard::end);
}

}  // namespace
}  // namespace verbena::engine
