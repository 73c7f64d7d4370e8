// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/sessions.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace verbena::kv {
namespace {

using Fate = ChangeSession::Fate;

TEST(ChangeSession, AChangeIsDoneOnceItIsKeptAndRefusedOnceItIsSettled) {
	ChangeSession session;
	EXPECT_EQ(session.fate_of(1), Fate::fresh);
	session.keep(1);
	EXPECT_EQ(session.fate_of(1), Fate::done);
	EXPECT_EQ(session.fate_of(2), Fate::fresh);
	session.settle(2);
	EXPECT_EQ(session.fate_of(1), Fate::settled);
	EXPECT_EQ(session.fate_of(2), Fate::fresh);
}

TEST(ChangeSession, ASettledChangeThatWasNeverExecutedIsRefusedToo) {
	ChangeSession session;
	session.keep(3);
	session.settle(3);
	EXPECT_EQ(session.fate_of(2), Fate::settled);
	EXPECT_EQ(session.fate_of(3), Fate::done);
}

TEST(ChangeSession, ChangesInARowTakeOneRangeInWhateverOrderTheyAreExecuted) {
	ChangeSession session;
	for (const std::uint64_t order : {1, 2, 5, 4, 3, 7}) session.keep(order);
	EXPECT_EQ(session.ranges(), 2u);
	session.keep(6);
	EXPECT_EQ(session.ranges(), 1u);
}

TEST(ChangeSession, AFullSessionTakesAChangeThatExtendsARangeAndNoOther) {
	ChangeSession session;
	for (std::uint64_t i = 1; i <= ChangeSession::ranges_max; ++i) session.keep(2 * i);
	EXPECT_EQ(session.fate_of(2 * ChangeSession::ranges_max + 2), Fate::crowded);
	EXPECT_EQ(session.fate_of(2 * ChangeSession::ranges_max + 1), Fate::fresh);
	session.settle(10);
	EXPECT_EQ(session.fate_of(2 * ChangeSession::ranges_max + 2), Fate::fresh);
}

TEST(ChangeSession, ItAgreesWithASetOfOrders) {
	Random random(7);
	for (int round = 0; round < 50; ++round) {
		ChangeSession session;
		std::set<std::uint64_t> kept;
		std::vector<std::uint64_t> latest;  // changes that may be undone, the latest last
		std::uint64_t settled = 0;
		for (int i = 0; i < 500; ++i) {
			const std::uint64_t order = settled + random.below(60);
			if (random.chance(0.1)) {
				session.settle(settled = order);
				kept.erase(kept.begin(), kept.lower_bound(settled));
			} else if (session.fate_of(order) == Fate::fresh) {
				session.keep(order);
				ASSERT_TRUE(kept.insert(order).second);
				latest.push_back(order);
			} else if (random.chance(0.2)) {
				for (std::uint64_t undone = random.below(4); undone > 0 && !latest.empty(); --undone) {
					session.undo(latest.back());
					kept.erase(latest.back());
					latest.pop_back();
				}
			}
			ChangeSession copy;
			ASSERT_TRUE(copy.read(session.bytes()));
			for (std::uint64_t each = settled < 5 ? 0 : settled - 5; each < settled + 70; ++each) {
				const Fate wanted = each < settled ? Fate::settled : kept.contains(each) ? Fate::done : Fate::fresh;
				ASSERT_EQ(session.fate_of(each), wanted);
				ASSERT_EQ(copy.fate_of(each), wanted);
			}
		}
	}
}

TEST(ChangeSession, AVersionIsKnownUntilItsChangeIsSettledOrUndone) {
	ChangeSession session;
	session.keep(3, 30);
	session.keep(1, 10);
	session.keep(2);
	session.keep(4, 40);
	for (const bool is_copy : {false, true}) {
		ChangeSession copy;
		ASSERT_TRUE(copy.read(session.bytes()));
		const ChangeSession& known = is_copy ? copy : session;
		EXPECT_EQ(known.version_of(1), 10u);
		EXPECT_EQ(known.version_of(2), 0u) << "its answer had none";
		EXPECT_EQ(known.version_of(3), 30u);
		EXPECT_EQ(known.fate_of(4), Fate::done);
	}
	session.undo(4);
	session.settle(3);
	EXPECT_EQ(session.version_of(1), 0u);
	EXPECT_EQ(session.version_of(3), 30u);
	EXPECT_EQ(session.version_of(4), 0u);
	EXPECT_EQ(session.entries(), 2u) << "a range and a version";
}

TEST(ChangeSession, AClientThatSettlesNothingHasABoundedNumberOfVersions) {
	ChangeSession session;
	for (std::uint64_t order = 1; order <= ChangeSession::versions_max + 10; ++order) session.keep(order, order);
	EXPECT_EQ(session.entries(), 1 + ChangeSession::versions_max);
	EXPECT_EQ(session.version_of(10), 0u);
	EXPECT_EQ(session.version_of(11), 11u);
	EXPECT_EQ(session.fate_of(1), Fate::done);
}

TEST(ChangeSession, BytesThatAreNoSessionAreRefused) {
	ChangeSession session;
	session.keep(4);
	session.keep(9);
	std::vector<std::byte> bytes = session.bytes();
	EXPECT_TRUE(ChangeSession().read(bytes));
	EXPECT_FALSE(ChangeSession().read(Bytes(bytes).first(bytes.size() - 1)));
	bytes[8] = std::byte{10};  // the first range now ends before it begins
	EXPECT_FALSE(ChangeSession().read(bytes));
	session.keep(11, 5);
	session.keep(12, 6);
	bytes = session.bytes();
	EXPECT_TRUE(ChangeSession().read(bytes));
	bytes[bytes.size() - 16] = std::byte{11};  // two versions of one change
	EXPECT_FALSE(ChangeSession().read(bytes));
}

// A server could not start again after a change whose order was nearly the greatest number.
TEST(ChangeSession, EachOrderThatTheWireAcceptsCanBeReadAgain) {
	const auto is_accepted = [](const ChangeId& id) {
		std::vector<std::byte> message;
		append(message, with_id({.operation = Operation::remove, .key_length = 1}));
		append(message, bytes_of(id));
		append(message, bytes_of("k"));
		return Requests(message).next().has_value();
	};
	std::vector<std::uint64_t> orders{1, 2, 3, order_max / 2};
	for (std::uint64_t i = 0; i < 5; ++i) orders.push_back(order_max - 2 + i);
	for (std::uint64_t i = 0; i < 5; ++i) orders.push_back(~std::uint64_t{0} - 4 + i);
	const auto settled_too = orders;
	std::uint64_t greatest = 0;
	for (const std::uint64_t order : orders)
		for (const std::uint64_t settled : settled_too) {
			if (!is_accepted({.order = order, .settled = settled})) continue;
			greatest = std::max(greatest, order);
			for (const std::uint64_t version : {0, 7}) {
				ChangeSession session, copy;
				session.keep(1);
				session.settle(settled);
				if (session.fate_of(order) == Fate::fresh) session.keep(order, version);
				ASSERT_TRUE(copy.read(session.bytes())) << order << " " << settled;
				EXPECT_EQ(copy.fate_of(order), session.fate_of(order)) << order << " " << settled;
				EXPECT_EQ(copy.version_of(order), session.version_of(order)) << order << " " << settled;
				EXPECT_EQ(copy.entries(), session.entries()) << order << " " << settled;
			}
		}
	EXPECT_EQ(greatest, order_max);
}

TEST(Sessions, ASessionOutlivesItsConnectionsByItsIdleTime) {
	Sessions sessions(1);
	ChangeSession& session = sessions.enter(7);
	EXPECT_EQ(&sessions.enter(7), &session) << "two connections of one client share it";
	sessions.keep(session, 1);
	sessions.leave(session, 100);
	sessions.leave(session, 200);
	sessions.expire(200 + Sessions::idle - 1);
	EXPECT_EQ(sessions.enter(7).fate_of(1), Fate::done);
	sessions.leave(session, 300);
	sessions.expire(300 + Sessions::idle);
	EXPECT_EQ(sessions.size(), 0u);
	EXPECT_FALSE(sessions.forgot(7)) << "its client sends nothing again after so long";
}

TEST(Sessions, AClientWithoutChangesLeavesNoSession) {
	Sessions sessions(1);
	sessions.leave(sessions.enter(7), 100);
	EXPECT_EQ(sessions.size(), 0u);
}

TEST(Sessions, TheOldestIsForgottenWhenThereAreTooManyAndUnknownClientsAreTold) {
	Sessions sessions(1, {.sessions = 2, .ranges = 100});
	for (const std::uint64_t client : {1, 2, 3}) {
		EXPECT_FALSE(sessions.forgot(client));
		ChangeSession& session = sessions.enter(client);
		sessions.keep(session, 1);
		sessions.leave(session, client);
	}
	EXPECT_EQ(sessions.size(), 2u);
	EXPECT_TRUE(sessions.forgot(1));
	EXPECT_FALSE(sessions.forgot(2));
}

TEST(Sessions, TheRangesOfIdleSessionsAreLimited) {
	Sessions sessions(1, {.sessions = 100, .ranges = 10});
	for (const std::uint64_t client : {1, 2, 3}) {
		ChangeSession& session = sessions.enter(client);
		for (std::uint64_t order = 1; order <= 9; order += 2) sessions.keep(session, order);
		sessions.leave(session, client);
	}
	EXPECT_EQ(sessions.size(), 2u);
}

TEST(Sessions, ACopyMadeOfTheChangesKnowsTheSame) {
	Sessions sessions(1, {.sessions = 1, .ranges = 100});
	std::map<std::uint64_t, std::vector<std::byte>> journal;
	const auto write = [&] {
		sessions.for_each_changed([&](std::uint64_t client, Bytes bytes) {
			if (bytes.empty()) journal.erase(client);
			else journal[client].assign(bytes.begin(), bytes.end());
		});
		sessions.written();
	};
	ChangeSession& first = sessions.enter(1);
	sessions.keep(first, 5);
	write();
	EXPECT_EQ(journal.size(), 1u);
	sessions.leave(first, 10);
	ChangeSession& second = sessions.enter(2);
	sessions.keep(second, 1);
	sessions.leave(second, 20);
	write();
	EXPECT_EQ(journal.size(), 2u) << "client 2, and that some client was forgotten";

	Sessions copy(1);
	for (const auto& [client, bytes] : journal) EXPECT_TRUE(copy.restore(client, bytes, 30));
	EXPECT_TRUE(copy.forgot(1));
	EXPECT_FALSE(copy.forgot(2));
	EXPECT_EQ(copy.enter(2).fate_of(1), Fate::done);
}

TEST(Sessions, AClientWhoseBytesAreNoSessionIsForgottenAndTheJournalHearsOfIt) {
	Sessions sessions(1);
	ChangeSession good;
	good.keep(5);
	EXPECT_TRUE(sessions.restore(1, good.bytes(), 0));
	EXPECT_FALSE(sessions.restore(2, bytes_of("no session"), 0));
	EXPECT_FALSE(sessions.forgot(1));
	EXPECT_TRUE(sessions.forgot(2));
	std::map<std::uint64_t, bool> written;  // by client: whether the journal has something of it
	sessions.for_each_changed([&](std::uint64_t client, Bytes bytes) { written[client] = !bytes.empty(); });
	EXPECT_EQ(written, (std::map<std::uint64_t, bool>{{0, true}, {2, false}}));
	EXPECT_EQ(sessions.size(), 1u);
}

TEST(Sessions, AnUndoneChangeIsFreshAgainAlsoForTheJournal) {
	Sessions sessions(1);
	ChangeSession& session = sessions.enter(7);
	sessions.keep(session, 1);
	sessions.keep(session, 2);
	sessions.written();
	sessions.undo(7, 2);
	sessions.undo(8, 1);  // a client that is not known
	EXPECT_EQ(session.fate_of(1), Fate::done);
	EXPECT_EQ(session.fate_of(2), Fate::fresh);
	int changed = 0;
	sessions.for_each_changed([&](std::uint64_t, Bytes) { ++changed; });
	EXPECT_EQ(changed, 1);
	sessions.undo(7, 1);
	sessions.leave(session, 0);
	EXPECT_EQ(sessions.size(), 0u);
}

TEST(Sessions, WhatCouldNotBeWrittenIsPassedAgain) {
	Sessions sessions(1);
	sessions.keep(sessions.enter(7), 1);
	for (const bool is_written : {false, true}) {
		int changed = 0;
		sessions.for_each_changed([&](std::uint64_t, Bytes) { ++changed; });
		EXPECT_EQ(changed, 1);
		if (is_written) sessions.written();
	}
	sessions.for_each_changed([](std::uint64_t, Bytes) { ADD_FAILURE(); });
}

TEST(Sessions, TheirMemoryCountsAndReturns) {
	Sessions sessions(1);
	const std::size_t before = sessions.bytes();
	ChangeSession& session = sessions.enter(5);
	const std::size_t empty = sessions.bytes();
	EXPECT_GT(empty, before);
	for (std::uint64_t order = 1; order < 2000; order += 2) sessions.keep(session, order);
	EXPECT_GE(sessions.bytes(), empty + 1000 * 2 * sizeof(std::uint64_t));
	sessions.leave(session, 0);
	sessions.expire(Sessions::idle);
	EXPECT_LT(sessions.bytes(), before + 1000);
}

}  // namespace
}  // namespace verbena::kv
