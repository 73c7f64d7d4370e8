// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/room.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena::engine {
namespace {

constexpr Nanoseconds at_first = 1'000'000'000'000;
constexpr std::uint64_t nonce = 77;
constexpr wire::Qpn own{0x1001}, peer{0x2002};
std::uint64_t give_nonce() { return nonce; }

wire::RoomMessage answer_to(wire::RoomMessage question, std::uint32_t room) {
	question.is_answer = true;
	question.room = room;
	return question;
}

TEST(RoomAsker, AsksForEachNewQueuePairButAtMostOnceASecond) {
	RoomAsker asker;
	const auto first = asker.begin(at_first, own, peer, give_nonce);
	EXPECT_EQ(first, (wire::RoomMessage{.nonce = nonce, .asked = peer, .asker = own}));
	EXPECT_FALSE(asker.begin(at_first + RoomAsker::ask_again_after - 1, own, peer, give_nonce));
	const auto second = asker.begin(at_first + RoomAsker::ask_again_after, own, {0x3003}, give_nonce);
	ASSERT_TRUE(second);
	EXPECT_EQ(second->asked, wire::Qpn{0x3003});
	EXPECT_EQ(second->nonce, nonce) << "answers with less room may be under way";
}

TEST(RoomAsker, RepeatsAQuestionThatHasNoAnswerAFewTimes) {
	RoomAsker asker;
	asker.begin(at_first, own, peer, give_nonce);
	unsigned questions = 1;
	Nanoseconds last = at_first, wait = 0;
	while (asker.due() != never) {
		const Nanoseconds due = asker.due();
		EXPECT_FALSE(asker.repeat(due - 1));
		ASSERT_TRUE(asker.repeat(due));
		EXPECT_GE(due - last, wait);
		wait = due - last;
		last = due;
		++questions;
	}
	EXPECT_EQ(questions, RoomAsker::questions_max);
	EXPECT_LT(last - at_first, 2'000'000'000);
}

TEST(RoomAsker, TakesAnAnswerAndLaterOnesWithLessRoom) {
	RoomAsker asker;
	const auto question = *asker.begin(at_first, own, peer, give_nonce);
	EXPECT_EQ(asker.take(answer_to(question, 200'000)), 200'000u);
	EXPECT_EQ(asker.due(), never);
	EXPECT_EQ(asker.take(answer_to(question, 100'000)), 100'000u);
	EXPECT_EQ(asker.take(answer_to(question, 1)), room_bytes_min) << "no answer stops a path";
}

TEST(RoomAsker, IgnoresAnAnswerToAQuestionThatItHasNotAsked) {
	RoomAsker asker;
	wire::RoomMessage forged{.is_answer = true, .nonce = 0, .asked = peer, .asker = own, .room = 9'000};
	EXPECT_FALSE(asker.take(forged)) << "it has not asked anything";
	asker.begin(at_first, own, peer, give_nonce);
	forged.nonce = nonce + 1;
	EXPECT_FALSE(asker.take(forged));
	EXPECT_NE(asker.due(), never);
}

TEST(RoomAsker, AsksAForeignPeerNoFurtherQuestion) {
	RoomAsker asker;
	auto answer = answer_to(*asker.begin(at_first, own, peer, give_nonce), 0);
	answer.status = 0x000c;
	EXPECT_FALSE(asker.take(answer));
	EXPECT_EQ(asker.due(), never);
	EXPECT_FALSE(asker.renew(at_first + RoomAsker::renew_after, 1));
}

TEST(RoomAsker, RenewsTheQuestionOfAPathThatIsUsed) {
	RoomAsker asker;
	const auto question = *asker.begin(at_first, own, peer, give_nonce);
	EXPECT_FALSE(asker.renew(at_first + RoomAsker::renew_after, 1)) << "no answer yet";
	asker.take(answer_to(question, 200'000));
	EXPECT_FALSE(asker.renew(at_first + RoomAsker::renew_after - 1, 1));
	EXPECT_EQ(asker.renew(at_first + RoomAsker::renew_after, 1), question);
	EXPECT_FALSE(asker.renew(at_first + 2 * RoomAsker::renew_after, 1)) << "nothing was sent";
	EXPECT_TRUE(asker.renew(at_first + 2 * RoomAsker::renew_after, 2));
}

constexpr wire::RoomMessage question{.nonce = nonce, .asked = own, .asker = peer};

TEST(RoomGiver, AnswersWithTheWholeRoom) {
	RoomGiver giver;
	EXPECT_EQ(giver.answer(question, 200'000, at_first), answer_to(question, 200'000));
	EXPECT_EQ(giver.answer(question, 100'000, at_first).room, 100'000u) << "the socket has become smaller";
}

TEST(RoomGiver, EachOverflowHalvesTheRoomDownToALeastOne) {
	RoomGiver giver;
	giver.answer(question, 200'000, at_first);
	EXPECT_TRUE(std::ranges::equal(giver.cut(at_first), std::array{answer_to(question, 100'000)}));
	EXPECT_TRUE(giver.cut(at_first + RoomGiver::between_cuts - 1).empty()) << "the first cut has had no effect yet";
	Nanoseconds now = at_first;
	for (int i = 0; i < 20; ++i) giver.cut(now += RoomGiver::between_cuts);
	EXPECT_EQ(giver.cut(now + RoomGiver::between_cuts)[0].room, room_bytes_min);
}

TEST(RoomGiver, EachAskerGetsTheSmallerRoomAndAsManyAreRemembered) {
	RoomGiver giver;
	for (std::uint64_t asker = 1; asker <= RoomGiver::askers_max + 1; ++asker)
		for (int times = 0; times < 2; ++times)
			giver.answer({.nonce = asker, .asked = own, .asker = peer}, 200'000, at_first);
	const auto answers = giver.cut(at_first);
	ASSERT_EQ(answers.size(), RoomGiver::askers_max);
	for (std::size_t i = 0; i < answers.size(); ++i) {
		EXPECT_EQ(answers[i].nonce, i + 2);
		EXPECT_EQ(answers[i].room, 100'000u);
	}
}

TEST(RoomGiver, TheRoomComesBackInCalmTimes) {
	RoomGiver giver;
	giver.answer(question, 200'000, at_first);
	giver.cut(at_first);
	EXPECT_EQ(giver.answer(question, 200'000, at_first + RoomGiver::calm_after - 1).room, 100'000u);
	EXPECT_EQ(giver.answer(question, 200'000, at_first + RoomGiver::calm_after).room, 200'000u);
}

TEST(RoomGiver, APeerThatHasNotAskedGetsNoMessage) {
	RoomGiver giver;
	EXPECT_TRUE(giver.cut(at_first).empty());
	giver.answer(question, 0, at_first);
	EXPECT_TRUE(giver.cut(at_first).empty()) << "the size of the socket is unknown";
}

}  // namespace
}  // namespace verbena::engine
