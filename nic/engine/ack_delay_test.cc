// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/ack_delay.h"

#include <gtest/gtest.h>

namespace verbena::engine {
namespace {

using adapter::Acks;

// A poll of the engine, after which something is to be acknowledged.
Acks poll(AckDelay& delay, bool moved) {
	const Acks acks = delay.after_poll(moved);
	delay.note(acks == Acks::may_wait);
	return acks;
}

void post(AckDelay& delay) {
	delay.note_post();
	delay.note(false);
}

TEST(AckDelay, WaitsThroughThePollThatFoundPacketsAndOneEmptyPoll) {
	AckDelay delay;
	EXPECT_EQ(poll(delay, true), Acks::may_wait);
	EXPECT_EQ(poll(delay, false), Acks::may_wait);
	EXPECT_TRUE(delay.waiting());
	EXPECT_EQ(poll(delay, false), Acks::leave);
	EXPECT_FALSE(delay.waiting());
	EXPECT_EQ(delay.after_poll(false), Acks::leave);
}

TEST(AckDelay, LeavesWhenMorePacketsCome) {
	AckDelay delay;
	for (int i = 0; i < 4; ++i) {
		EXPECT_EQ(poll(delay, true), Acks::may_wait);
		EXPECT_EQ(poll(delay, true), Acks::leave);
	}
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

}  // namespace
}  // namespace verbena::engine
