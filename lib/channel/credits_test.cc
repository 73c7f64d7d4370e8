// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/credits.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"

namespace verbena::channel {
namespace {

TEST(SendCredits, ALimitThatWrapsIsStillALimit) {
	SendCredits credits(0xffffffff, 4);
	for (std::uint32_t i = 0; i < 3; ++i) {
		EXPECT_TRUE(credits.learn(i - 1, 0, 0));
	}
	EXPECT_EQ(credits.available(), 1u);
}

TEST(SendCredits, AnOlderLimitChangesNothing) {
	SendCredits credits(5, 64);
	EXPECT_TRUE(credits.learn(3, 0, 0));
	EXPECT_EQ(credits.available(), 5u);
}

TEST(SendCredits, ALimitFurtherAheadThanThePeersDepthIsNotBelieved) {
	SendCredits credits(1, 64);
	credits.data_sent();
	EXPECT_TRUE(credits.learn(65, 0, 0));
	EXPECT_FALSE(credits.learn(66, 0, 0));
}

TEST(SendCredits, AControlFrameThatWasNeverSentCannotHaveBeenSeen) { EXPECT_FALSE(SendCredits(1, 64).learn(1, 1, 0)); }

TEST(SendCredits, OneControlFrameOfAKindUntilThePeerHasSeenIt) {
	SendCredits credits(1, 64);
	EXPECT_TRUE(credits.may_send(Control::want));
	credits.control_sent(Control::want);
	EXPECT_FALSE(credits.may_send(Control::want));
	EXPECT_TRUE(credits.may_send(Control::credit));
	EXPECT_TRUE(credits.learn(1, 0, 1));
	EXPECT_TRUE(credits.may_send(Control::want));
}

TEST(ReceiveCredits, ASlowConsumerGetsNoMoreThanItsWindow) {
	CreditBank bank;
	bank.posted(100);
	ReceiveCredits credits({.first = 1, .max = 4});
	ASSERT_TRUE(bank.take(ReceiveCredits::needed({.first = 1})));
	int arrived = 0;
	while (credits.data_arrived(bank)) {
		++arrived;
		credits.wanted(bank);
	}
	EXPECT_EQ(arrived, 4);
}

TEST(ReceiveCredits, AFrameWithoutACreditIsRefused) {
	CreditBank bank;
	ReceiveCredits credits({.first = 1, .max = 4});
	EXPECT_TRUE(credits.data_arrived(bank));
	EXPECT_FALSE(credits.data_arrived(bank));
}

TEST(ReceiveCredits, ASecondControlFrameWaitsUntilTheFirstWasSeen) {
	ReceiveCredits credits({.first = 1, .max = 4});
	EXPECT_TRUE(credits.control_reposted(Control::want));
	EXPECT_TRUE(credits.control_reposted(Control::credit));
	credits.tell();
	EXPECT_TRUE(credits.control_reposted(Control::want));
	EXPECT_FALSE(credits.control_reposted(Control::want));
}

TEST(ReceiveCredits, EachConnectionKeepsOneCreditWhenTheBankIsEmpty) {
	CreditBank bank;
	ReceiveCredits credits({.first = 1, .max = 64});
	for (int i = 0; i < 10; ++i) {
		ASSERT_TRUE(credits.data_arrived(bank));
		EXPECT_EQ(credits.remaining(), 0u);
		credits.data_released(bank);
		EXPECT_EQ(credits.remaining(), 1u);
	}
}

TEST(ReceiveCredits, AReleasedUnitGoesBackToTheBankIfTheWindowIsFull) {
	CreditBank bank;
	bank.posted(ReceiveCredits::needed({.first = 1}) + 1);
	ASSERT_TRUE(bank.take(ReceiveCredits::needed({.first = 1})));
	ReceiveCredits credits({.first = 1, .max = 1});
	ASSERT_TRUE(credits.data_arrived(bank));
	EXPECT_EQ(credits.remaining(), 1u) << "one may arrive while the program holds another";
	EXPECT_EQ(bank.free(), 0u);
	credits.data_released(bank);
	EXPECT_EQ(credits.remaining(), 1u);
	EXPECT_EQ(bank.free(), 1u);
}

// Two ends, an ordered wire, and programs that send and hold messages at random: no more is granted
// than is posted, and everything arrives.
struct End {
	SendCredits send{1, 8};
	ReceiveCredits receive{{.first = 1, .max = 8}};
	int to_send = 0, arrived = 0, sent = 0;
	std::uint32_t posted = ReceiveCredits::needed({});
	int held = 0;
	bool asked = false;
};
struct Frame {
	int kind;  // 0 data, 1 credit, 2 want
	std::uint32_t limit;
	std::uint8_t credits_seen, wants_seen;
	bool wants;
};

TEST(Credits, NoCreditWithoutABufferAndNoDeadlockWhateverTheProgramsDo) {
	for (std::uint64_t seed = 1; seed <= 500; ++seed) {
		Random random(seed);
		End ends[2];
		CreditBank banks[2];
		std::deque<Frame> wires[2];
		const std::uint32_t granted = static_cast<std::uint32_t>(random.below(6));
		for (int i = 0; i < 2; ++i) {
			ends[i].to_send = static_cast<int>(random.below(200));
			ends[i].posted += granted;
			banks[i].posted(granted);
		}
		const auto put = [&](int who, int kind) {
			End& end = ends[who];
			const bool wants = kind == 0 && end.send.available() == 1 && end.to_send > 1;
			if (kind == 0) end.send.data_sent(), --end.to_send, ++end.sent;
			else end.send.control_sent(kind == 1 ? Control::credit : Control::want);
			end.asked = end.asked || wants || kind == 2;
			wires[who].push_back(
				{kind, end.receive.tell(), end.receive.seen(Control::credit), end.receive.seen(Control::want), wants});
		};
		const auto pump = [&](int who) {
			End& end = ends[who];
			while (end.to_send > 0 && end.send.available() > 0) put(who, 0);
			if (end.to_send > 0 && !end.asked && end.send.may_send(Control::want)) put(who, 2);
			if (end.receive.due() && end.send.may_send(Control::credit)) put(who, 1);
		};
		const int wanted[2] = {ends[0].to_send, ends[1].to_send};
		for (int step = 0; step < 20'000; ++step) {
			const int who = static_cast<int>(random.below(2));
			End& end = ends[who];
			std::deque<Frame>& wire = wires[1 - who];
			const std::uint64_t what = random.below(3);
			if (what == 0 && !wire.empty()) {
				const Frame frame = wire.front();
				wire.pop_front();
				ASSERT_GT(end.posted, 0u) << "RNR, seed " << seed;
				--end.posted;
				if (frame.kind == 0) {
					ASSERT_TRUE(end.receive.data_arrived(banks[who])) << "seed " << seed;
					++end.arrived;
					++end.held;
				} else {
					++end.posted;
					ASSERT_TRUE(end.receive.control_reposted(frame.kind == 1 ? Control::credit : Control::want));
				}
				const std::uint32_t before = end.send.available();
				ASSERT_TRUE(end.send.learn(frame.limit, frame.credits_seen, frame.wants_seen));
				if (end.send.available() > before) end.asked = false;
				if (frame.kind == 2 || frame.wants) end.receive.wanted(banks[who]);
			} else if (what == 1 && end.held > 0) {
				--end.held;
				++end.posted;
				end.receive.data_released(banks[who]);
			} else {
				pump(who);
			}
			ASSERT_GE(end.posted, banks[who].free() + end.receive.granted_total()) << "seed " << seed;
			if (ends[0].arrived == wanted[1] && ends[1].arrived == wanted[0]) break;
		}
		EXPECT_EQ(ends[0].arrived, wanted[1]) << "seed " << seed;
		EXPECT_EQ(ends[1].arrived, wanted[0]) << "seed " << seed;
	}
}

}  // namespace
}  // namespace verbena::channel
