// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/ack_delay.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using adapter::Acks;

// A poll of the engine, after which something is to be acknowledged.
Acks poll(AckDelay& delay, bool requests) {
	const Acks acks = delay.after_poll(requests);
	delay.note(acks == Acks::may_wait);
	return acks;
}

// A pass of the progress thread, after which something is to be acknowledged.
Acks tick(AckDelay& delay, bool requests, Nanoseconds now) {
	const Acks acks = delay.after_tick(requests, now);
	delay.note(acks == Acks::may_wait);
	return acks;
}

void post(AckDelay& delay) {
	delay.note_post();
	delay.note(false);
}

TEST(AckDelay, WaitsThroughThePollThatFoundARequestAndSomeEmptyPolls) {
	AckDelay delay;
	EXPECT_EQ(poll(delay, true), Acks::may_wait);
	for (std::uint32_t i = 0; i < AckDelay::empty_polls_max; ++i) EXPECT_EQ(poll(delay, false), Acks::may_wait);
	EXPECT_TRUE(delay.waiting());
	EXPECT_EQ(poll(delay, false), Acks::leave);
	EXPECT_FALSE(delay.waiting());
	EXPECT_EQ(delay.after_poll(false), Acks::leave);
}

// ib_write_lat over UDP with messages of several packets took 40 us: the acknowledgement of the
// first packet left before the program could see the last one and answer.
TEST(AckDelay, WaitsWhileTheRestOfAMessageComes) {
	AckDelay delay;
	for (int message = 0; message < 100; ++message) {
		for (std::uint32_t pass = 0; pass < AckDelay::passes_max; ++pass) {
			EXPECT_EQ(poll(delay, true), Acks::may_wait);
			EXPECT_EQ(poll(delay, false), Acks::may_wait);
		}
		post(delay);
	}
}

TEST(AckDelay, LeavesIfRequestsDoNotEnd) {
	AckDelay delay;
	for (std::uint32_t pass = 0; pass < AckDelay::passes_max; ++pass) EXPECT_EQ(poll(delay, true), Acks::may_wait);
	EXPECT_EQ(poll(delay, true), Acks::leave);
	EXPECT_FALSE(delay.waiting());
}

TEST(AckDelay, AProgramThatAnswersKeepsItsDelay) {
	AckDelay delay;
	for (int i = 0; i < 1000; ++i) {
		EXPECT_EQ(poll(delay, true), Acks::may_wait);
		post(delay);
		EXPECT_FALSE(delay.waiting());
	}
}

// The receiver of ib_send_bw, or a program that computes after each message.
TEST(AckDelay, AProgramThatDoesNotAnswerLosesIt) {
	AckDelay delay;
	int waits = 0;
	for (int i = 0; i < 640; ++i) {
		waits += poll(delay, true) == Acks::may_wait;
		delay.note(false);  // the progress thread's tick
	}
	EXPECT_LE(waits, 8 + 10);
}

TEST(AckDelay, AProgramThatBeginsToAnswerGetsItBack) {
	AckDelay delay;
	for (int i = 0; i < 100; ++i) {
		poll(delay, true);
		delay.note(false);
	}
	for (int i = 0; i < 64; ++i) {
		poll(delay, true);
		post(delay);
	}
	EXPECT_EQ(poll(delay, true), Acks::may_wait);
}

// ib_write_lat: each end waits for bytes in memory, and its answer took 40 us instead of 6, because
// the progress thread acknowledged the message before the program could answer.
TEST(AckDelay, APassOfTheProgressThreadLeavesTheAcknowledgementToTheAnswer) {
	AckDelay delay;
	for (Nanoseconds now = 0; now < 1'000'000; now += 1000) {
		EXPECT_EQ(tick(delay, true, now), Acks::may_wait);
		post(delay);
		EXPECT_FALSE(delay.waiting());
	}
}

TEST(AckDelay, TheProgressThreadSendsAnAcknowledgementThatNoAnswerTookAlong) {
	AckDelay delay;
	EXPECT_EQ(tick(delay, true, 1000), Acks::may_wait);
	EXPECT_EQ(delay.due(), 1000 + AckDelay::tick_pause);
	EXPECT_EQ(tick(delay, false, delay.due() - 1), Acks::may_wait);
	EXPECT_EQ(tick(delay, false, delay.due()), Acks::leave);
	EXPECT_FALSE(delay.waiting());
}

// A tick between a poll and the program's answer to it sent the acknowledgement by itself. The peer
// then took it for all that comes, and had to be woken for the answer.
TEST(AckDelay, ATickLeavesAloneWhatAPollHasJustDelayed) {
	AckDelay delay;
	EXPECT_EQ(poll(delay, true), Acks::may_wait);
	EXPECT_EQ(delay.due(), never);
	EXPECT_EQ(tick(delay, false, 7000), Acks::may_wait);
	EXPECT_EQ(poll(delay, false), Acks::may_wait) << "the tick counted as a poll";
	EXPECT_EQ(tick(delay, false, 7000 + AckDelay::tick_pause), Acks::leave);
}

TEST(AckDelay, ATickWithMoreRequestsKeepsTheTimeOfTheFirst) {
	AckDelay delay;
	EXPECT_EQ(tick(delay, true, 1000), Acks::may_wait);
	EXPECT_EQ(tick(delay, true, 2000), Acks::may_wait);
	EXPECT_EQ(delay.due(), 1000 + AckDelay::tick_pause);
	EXPECT_EQ(poll(delay, true), Acks::may_wait);
	EXPECT_EQ(tick(delay, true, delay.due()), Acks::leave);
	EXPECT_EQ(tick(delay, true, 90'000), Acks::may_wait) << "a wait of its own";
	EXPECT_EQ(delay.due(), 90'000 + AckDelay::tick_pause);
}

// Every second pass found only an acknowledgement of the peer's, and always the one that was to try
// again was such a pass.
TEST(AckDelay, ATryIsMadeByAPassWithSomethingToAcknowledge) {
	AckDelay delay;
	for (int i = 0; i < 8; ++i) {
		poll(delay, true);
		delay.note(false);
	}
	int waits = 0;
	for (int i = 0; i < 640; ++i) {
		delay.after_poll(true);
		delay.note(false);  // nothing to acknowledge
		waits += tick(delay, true, 0) == Acks::may_wait;
		delay.note(false);
	}
	EXPECT_GE(waits, 16);
	EXPECT_LE(waits, 20);
}

}  // namespace
}  // namespace verbena::engine
