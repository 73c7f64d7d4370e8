// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/attempts.h"

#include <gtest/gtest.h>

#include "lib/kv/backoff.h"
#include "lib/kv/sessions.h"

namespace verbena::kv {
namespace {

constexpr std::uint64_t one = 1, other = 2;  // identities of servers

TEST(Attempts, AnOperationThatWasNeverSentHasChangedNothing) {
	const Attempts change(true);
	EXPECT_TRUE(change.may_send(one, true, 0));
	EXPECT_EQ(change.at_deadline(), Error::unavailable);
}

TEST(Attempts, AnUnansweredChangeIsSentAgainOnlyToTheServerThatMayHaveExecutedIt) {
	Attempts change(true);
	change.sent(one, second);
	EXPECT_EQ(change.at_deadline(), Error::timeout);
	change.lost();
	EXPECT_EQ(change.at_deadline(), Error::timeout);
	EXPECT_TRUE(change.may_send(one, false, 2 * second));
	EXPECT_FALSE(change.may_send(other, false, 2 * second));
	EXPECT_FALSE(change.may_send(one, true, 2 * second)) << "the server has forgotten clients";
	EXPECT_FALSE(change.may_move());
}

TEST(Attempts, ARefusedChangeMayBeSentAnywhere) {
	Attempts change(true);
	change.sent(one, second);
	change.refused();
	EXPECT_EQ(change.at_deadline(), Error::unavailable);
	EXPECT_TRUE(change.may_send(other, true, 2 * second));
	change.sent(other, 2 * second);
	change.lost();
	EXPECT_TRUE(change.may_send(other, false, 2 * second));
	EXPECT_FALSE(change.may_send(one, false, 2 * second));
}

TEST(Attempts, ARefusalSaysNothingAboutAnEarlierAttemptWithoutAnswer) {
	Attempts change(true);
	change.sent(one, second);
	change.lost();
	change.sent(one, 2 * second);
	change.refused();
	EXPECT_EQ(change.at_deadline(), Error::timeout);
	EXPECT_FALSE(change.may_send(other, false, 2 * second));
}

TEST(Attempts, AChangeIsNotSentAgainAfterTheServerMayHaveForgottenIt) {
	Attempts change(true);
	change.sent(one, second);
	change.lost();
	EXPECT_TRUE(change.may_send(one, false, Attempts::resend_max));
	EXPECT_FALSE(change.may_send(one, false, second + Attempts::resend_max));
	EXPECT_LT(Attempts::resend_max, Sessions::idle);
}

TEST(Attempts, AGetMayAlwaysBeSentAgain) {
	Attempts get(false);
	get.sent(one, second);
	get.lost();
	EXPECT_TRUE(get.may_send(other, true, second + Attempts::resend_max));
	EXPECT_TRUE(get.may_move());
}

TEST(Backoff, ThePauseDoublesUpToOneSecond) {
	Backoff backoff;
	Nanoseconds sum = 0, last = 0;
	for (int i = 0; i < 8; ++i) sum += last = backoff.failed();
	EXPECT_EQ(last, second);
	EXPECT_EQ(sum, (10 + 20 + 40 + 80 + 160 + 320 + 640 + 1000) * (second / 1000));
	EXPECT_EQ(backoff.patience(), Backoff::patience_max);
}

TEST(Backoff, OnlyAConnectionThatHasLastedMakesThePauseShortAgain) {
	Backoff backoff;
	for (int i = 0; i < 10; ++i) backoff.failed();
	backoff.connected(100 * second);
	EXPECT_EQ(backoff.ended(100 * second + 1), Backoff::pause_max) << "the server refuses after each connect";
	backoff.connected(200 * second);
	EXPECT_EQ(backoff.ended(201 * second), Backoff::pause_min);
}

}  // namespace
}  // namespace verbena::kv
