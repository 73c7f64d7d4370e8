// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/admission.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

namespace verbena::channel {
namespace {

constexpr Nanoseconds long_grace = 60'000'000'000, no_grace = 1;

Source source(const std::string& host) { return source_of(async::resolve(host, 1).value().get()); }

// Returns after this time.
void spend(Nanoseconds time) {
	for (const Nanoseconds start = monotonic_now(); monotonic_now() - start <= time;) {}
}

// Clients that are admitted, and leave when they are evicted.
class Clients {
public:
	Clients(std::size_t places, Nanoseconds grace) : admission(loop, places, grace) {}

	void add(Source source) {
		const std::size_t number = members.size();
		members.push_back(std::make_unique<Admission::Member>(admission, source, [this, number] {
			evicted.push_back(number);
			loop.post([this, number] {
				before_leaving();
				loop.post([this, number] { members[number].reset(); });
			});
		}));
	}
	// Waits for a place and takes it.
	async::Task<void> enter(Source source) {
		const bool room = co_await admission.until_room(source);
		if (!room) {
			++refused;
			co_return;
		}
		add(source);
		entered.push_back(source);
	}

	async::Loop loop{{.spin = 0}};
	Admission admission;
	std::deque<std::unique_ptr<Admission::Member>> members;
	std::vector<std::size_t> evicted;
	std::vector<Source> entered;
	int refused = 0;
	std::function<void()> before_leaving = [] {};  // runs in the turn before an evicted member ends
};

TEST(Admission, AHostWithManyAddressesOfOnePrefixIsOneSource) {
	EXPECT_EQ(source("[2001:db8::1]"), source("[2001:db8::2:3]"));
	EXPECT_NE(source("[2001:db8::1]"), source("[2001:db8:0:1::1]"));
	EXPECT_NE(source("127.0.0.1"), source("127.0.0.2"));
	EXPECT_EQ(source("127.0.0.1"), source("[::ffff:127.0.0.1]"));
}

TEST(Admission, TheOldestLeavesOnceItsGraceIsOver) {
	Clients clients(3, no_grace);
	for (int i = 0; i < 3; ++i) clients.add(1);
	EXPECT_TRUE(clients.admission.full());
	clients.loop.complete(clients.enter(1));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{0}));
	EXPECT_EQ(clients.entered, (std::vector<Source>{1}));
	EXPECT_EQ(clients.admission.evictions(), 1u);
}

// Clients of a source 8 that has been there for longer than the grace, all of them new; then one of
// a source 9 waits for a place.
class Crowd : public Clients {
public:
	Crowd() : Clients(4, grace) {
		add(8);
		spend(grace);
		add(7);
		for (int i = 0; i < 3; ++i) add(8);
		members[0].reset();
	}

	static constexpr Nanoseconds grace = 200'000'000;
};

TEST(Admission, WithinTheGraceTheSourceWithTheMostMakesRoom) {
	Crowd clients;
	clients.loop.complete(clients.enter(9));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{2})) << "the oldest of the source that has three";
}

TEST(Admission, WithinTheGraceASourceOfTwoMakesRoomForAnother) {
	Clients clients(3, Crowd::grace);
	clients.add(8);
	spend(Crowd::grace);
	clients.add(7);
	clients.add(8);
	clients.members[0].reset();
	clients.add(8);
	clients.loop.complete(clients.enter(9));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{2})) << "the oldest of the source that has two";
}

TEST(Admission, WithinTheGraceASourceWhoseClientsSucceedKeepsItsPlaces) {
	Crowd clients;
	for (int i = 0; i < 10; ++i) clients.admission.note_success(8);
	clients.loop.spawn(clients.enter(9));
	clients.loop.complete([](Clients& all) -> async::Task<void> {
		co_await async::NextTurn(all.loop);
		all.members[3].reset();
		while (all.entered.empty()) co_await async::NextTurn(all.loop);
	}(clients));
	EXPECT_TRUE(clients.evicted.empty());
}

// The timer runs in the turn in which the member's place has become free and its waiter has not
// been resumed yet.
TEST(Admission, ATimerBetweenTheEndOfAMemberAndItsWaiterEvictsNoOther) {
	constexpr Nanoseconds look = 1'000'000;
	Clients clients(3, 4 * look);
	clients.before_leaving = [] { spend(2 * look); };
	for (int i = 0; i < 3; ++i) clients.add(1);
	clients.loop.complete(clients.enter(2));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{0}));
	EXPECT_EQ(clients.entered, (std::vector<Source>{2}));
}

// A client of this source enters when a member has ended, and no member is evicted for it.
void expect_to_wait(Clients& clients, Source source) {
	clients.loop.spawn(clients.enter(source));
	clients.loop.complete([](Clients& all) -> async::Task<void> {
		co_await async::NextTurn(all.loop);
		EXPECT_TRUE(all.entered.empty());
		all.members[1].reset();
		while (all.entered.empty()) co_await async::NextTurn(all.loop);
	}(clients));
	EXPECT_TRUE(clients.evicted.empty());
}

TEST(Admission, WithinTheGraceASourceDoesNotEvictOneThatHasNoMore) {
	Clients clients(2, long_grace);
	clients.add(7);
	clients.add(8);
	expect_to_wait(clients, 7);
}

TEST(Admission, InItsFirstGraceASourceKeepsItsPlaces) {
	Clients clients(2, long_grace);
	clients.add(8);
	clients.add(8);
	expect_to_wait(clients, 9);
}

// A hundred clients of one source waited before; the other source's client has the second turn.
TEST(Admission, SourcesThatWaitHaveTurnsInACircle) {
	Clients clients(1, long_grace);
	clients.add(5);
	for (int i = 0; i < 100; ++i) clients.loop.spawn(clients.enter(5));
	clients.loop.spawn(clients.enter(6));
	clients.loop.complete([](Clients& all) -> async::Task<void> {
		for (std::size_t i = 0; i < 101; ++i) {
			co_await async::NextTurn(all.loop);
			all.members[i].reset();
			while (all.entered.size() == i) co_await async::NextTurn(all.loop);
		}
	}(clients));
	ASSERT_EQ(clients.entered.size(), 101u);
	EXPECT_TRUE(clients.entered[0] == 6 || clients.entered[1] == 6);
}

TEST(Admission, AMemberOfTheSourceWithTheMostCanBeEvicted) {
	Clients clients(100, no_grace);
	EXPECT_FALSE(clients.admission.evict_unless_progressing(1));
	clients.add(1);
	clients.add(2);
	clients.add(2);
	spend(10 * no_grace);
	EXPECT_TRUE(clients.admission.evict_unless_progressing(1));
	EXPECT_TRUE(clients.admission.evict_unless_progressing(1));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{1, 0})) << "of sources with as many, that of the oldest";
}

TEST(Admission, WithinTheGraceNoneIsEvictedForAPlace) {
	Clients clients(100, long_grace);
	clients.add(1);
	EXPECT_FALSE(clients.admission.evict_unless_progressing(1));
}

// 20,000 clients that arrived at once were evicted while they waited for their handshake.
TEST(Admission, ASourceWhoseClientsSucceedFastEnoughKeepsThem) {
	Clients clients(100, no_grace);
	for (int i = 0; i < 20; ++i) clients.add(1);
	spend(10 * no_grace);
	for (int i = 0; i < 4; ++i) clients.admission.note_success(1);
	clients.admission.note_success(2);
	EXPECT_FALSE(clients.admission.evict_unless_progressing(10 * second)) << "4 a second: 20 need 5 s";
	EXPECT_TRUE(clients.admission.evict_unless_progressing(second));
}

// The silent callers of many sources held the places while the largest source made progress.
TEST(Admission, ALargerSourceThatMakesProgressShieldsNoOther) {
	Clients clients(100, no_grace);
	clients.add(1);
	for (int i = 0; i < 3; ++i) clients.add(2);
	spend(10 * no_grace);
	for (int i = 0; i < 10; ++i) clients.admission.note_success(2);
	EXPECT_TRUE(clients.admission.evict_unless_progressing(10'000'000'000));
	EXPECT_FALSE(clients.admission.evict_unless_progressing(10'000'000'000));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{0}));
}

TEST(Admission, AHandshakeOfASourceWhoseClientsSucceedHasMoreThanItsGrace) {
	constexpr Nanoseconds grace = 100'000'000;
	Clients clients(2, grace);
	clients.add(1);
	clients.add(2);
	spend(2 * grace);
	for (int i = 0; i < 10; ++i) clients.admission.note_success(1);
	clients.loop.complete(clients.enter(3));
	EXPECT_EQ(clients.evicted, (std::vector<std::size_t>{1})) << "the older one's source makes progress";
}

TEST(Admission, CloseEndsTheWaits) {
	Clients clients(1, long_grace);
	clients.add(1);
	clients.loop.spawn(clients.enter(1));
	clients.loop.complete([](Clients& all) -> async::Task<void> {
		co_await async::NextTurn(all.loop);
		all.admission.close();
		while (all.refused == 0) co_await async::NextTurn(all.loop);
	}(clients));
	EXPECT_TRUE(clients.entered.empty());
	clients.loop.complete(clients.enter(3));
	EXPECT_EQ(clients.refused, 2);
}

TEST(Admission, AClientThatIsDestroyedWhileItWaitsTakesNoTurn) {
	Clients clients(1, long_grace);
	clients.add(1);
	clients.loop.spawn(clients.enter(1));
	clients.loop.complete([](Clients& all) -> async::Task<void> { co_await async::NextTurn(all.loop); }(clients));
	clients.loop.abandon_spawned();
	clients.members[0].reset();
	clients.loop.complete(clients.enter(2));
	EXPECT_EQ(clients.entered, (std::vector<Source>{2}));
}

}  // namespace
}  // namespace verbena::channel
