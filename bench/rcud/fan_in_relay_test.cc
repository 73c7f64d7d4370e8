// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in_relay.h"

#include <gtest/gtest.h>

namespace verbena::rcud {
namespace {

struct Relayed {
	Watch sees = Watch::go_on;  // the next answer of the watcher
	bool asked = false;         // whether it was asked for an idle receiver
	Watcher watcher = [this](bool silent) {
		asked = silent;
		return sees;
	};
	Relay relay{watcher};
	std::uint32_t answers_seen = 0;  // those that the sender in another thread has seen
};

TEST(Relay, AsksForAnIdleReceiverIfTheFirstSenderIsSilent) {
	Relayed one;
	EXPECT_EQ(one.relay.look(false), Watch::go_on);
	EXPECT_FALSE(one.asked);
	one.sees = Watch::receiver_idle;
	EXPECT_EQ(one.relay.look(true), Watch::receiver_idle);
	EXPECT_TRUE(one.asked);
}

TEST(Relay, AsksOnceForASilentSenderInAnotherThreadAndBringsItTheAnswer) {
	Relayed one;
	EXPECT_EQ(one.relay.look_from_beside(true, one.answers_seen), Watch::go_on);
	one.sees = Watch::receiver_idle;
	EXPECT_EQ(one.relay.look(false), Watch::receiver_idle);
	EXPECT_TRUE(one.asked);
	EXPECT_EQ(one.relay.look_from_beside(true, one.answers_seen), Watch::receiver_idle);
	EXPECT_EQ(one.relay.look_from_beside(false, one.answers_seen), Watch::go_on) << "the answer is an old one";
	one.sees = Watch::go_on;
	one.relay.look(false);
	EXPECT_TRUE(one.asked) << "it was silent again";
	one.relay.look(false);
	EXPECT_FALSE(one.asked);
}

TEST(Relay, EndsTheSendersOfAllThreads) {
	Relayed finished;
	finished.sees = Watch::finished;
	EXPECT_EQ(finished.relay.look(false), Watch::finished);
	EXPECT_EQ(finished.relay.look_from_beside(false, finished.answers_seen), Watch::finished);
	Relayed abandoned;
	abandoned.sees = Watch::abandon;
	EXPECT_EQ(abandoned.relay.look(false), Watch::abandon);
	EXPECT_EQ(abandoned.relay.look_from_beside(false, abandoned.answers_seen), Watch::abandon);
	Relayed one;
	one.relay.abandon();
	EXPECT_EQ(one.relay.look(false), Watch::abandon);
}

}  // namespace
}  // namespace verbena::rcud
