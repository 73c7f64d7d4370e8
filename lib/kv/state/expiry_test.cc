// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/expiry.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr Nanoseconds hour = 3'600'000 * ms;

std::size_t take_all(Expiry& expiry) {
	std::size_t count = 0;
	while (expiry.next_due() != nullptr) ++count;
	return count;
}

TEST(Expiry, AnEntryComesAfterItsTimeAndNotLaterThanAnnounced) {
	for (const Nanoseconds left :
		{Nanoseconds{0}, Nanoseconds{1}, ms, 8 * ms, 100 * ms, 1000 * ms, 60'000 * ms, hour, 24 * 49 * hour}) {
		Expiry expiry(5 * hour + 123);
		Expiry::Entry entry;
		const Nanoseconds when = expiry.now() + left;
		expiry.schedule(entry, when);
		expiry.advance(when - 1);
		expiry.advance(when);
		const Expiry::Entry* found = expiry.next_due();
		EXPECT_EQ(found, nullptr) << left;
		expiry.advance(when + Expiry::late_max(left) + TimerWheel::tick);
		EXPECT_EQ(expiry.next_due(), &entry) << left;
		EXPECT_FALSE(entry.waits());
		EXPECT_LE(Expiry::late_max(left), std::max(left / 32, 9 * ms));
	}
}

TEST(Expiry, NextIsNotAfterTheTimeAtWhichAnEntryComes) {
	Expiry expiry(hour);
	EXPECT_EQ(expiry.next(), never);
	Expiry::Entry entry;
	const Nanoseconds when = expiry.now() + 5 * hour;
	expiry.schedule(entry, when);
	int steps = 0;
	Expiry::Entry* found = nullptr;
	for (; found == nullptr && steps < 100; ++steps) {
		const Nanoseconds next = expiry.next();
		ASSERT_GT(next, expiry.now());
		ASSERT_LE(next, when + Expiry::late_max(5 * hour) + TimerWheel::tick);
		expiry.advance(next);
		if (expiry.next() == 0) found = expiry.next_due();
	}
	EXPECT_EQ(found, &entry);
	EXPECT_LT(steps, 10) << "a coarse step leads to few finer ones";
	EXPECT_EQ(expiry.next(), never);
}

TEST(Expiry, ACancelledEntryDoesNotComeAlsoIfItIsDue) {
	Expiry expiry(0);
	Expiry::Entry first, second, third;
	for (Expiry::Entry* const each : {&first, &second, &third}) expiry.schedule(*each, ms);
	Expiry::cancel(first);
	Expiry::cancel(first);
	expiry.advance(hour);
	Expiry::cancel(second);
	EXPECT_EQ(expiry.next_due(), &third);
	EXPECT_EQ(expiry.next_due(), nullptr);
}

TEST(Expiry, AnEntryThatIsScheduledAgainComesAtItsNewTime) {
	Expiry expiry(0);
	Expiry::Entry entry;
	expiry.schedule(entry, ms);
	expiry.schedule(entry, hour);
	expiry.advance(hour - 1);
	EXPECT_EQ(expiry.next_due(), nullptr);
	expiry.advance(2 * hour);
	EXPECT_EQ(expiry.next_due(), &entry);
}

TEST(Expiry, AMillionEntriesOfOneInstantAreTakenAFewAtATime) {
	Expiry expiry(0);
	std::vector<Expiry::Entry> entries(1'000'000);
	for (Expiry::Entry& each : entries) expiry.schedule(each, hour);
	expiry.advance(2 * hour);
	for (int i = 0; i < 1000; ++i) ASSERT_NE(expiry.next_due(), nullptr);
	EXPECT_EQ(take_all(expiry), 999'000u);
}

TEST(Expiry, AnEntryWhoseBytesHaveMovedIsFoundAtItsNewPlace) {
	Expiry expiry(0);
	std::vector<Expiry::Entry> old(3), fresh(3);
	for (Expiry::Entry& each : old) expiry.schedule(each, ms);
	for (std::size_t i = 0; i < old.size(); ++i) {
		fresh[i] = old[i];
		Expiry::relocated(fresh[i]);
	}
	expiry.advance(hour);
	for (Expiry::Entry& each : fresh) EXPECT_EQ(expiry.next_due(), &each);
	Expiry::Entry idle;
	Expiry::relocated(idle);
	EXPECT_FALSE(idle.waits());
}

TEST(Expiry, AfterALongPauseAnEntryMayComeEarlyAndIsScheduledAgain) {
	Expiry expiry(0);
	Expiry::Entry far;
	far.at = Nanoseconds{1} << 60;
	expiry.schedule(far, far.at);
	expiry.advance(Nanoseconds{1} << 53);
	ASSERT_EQ(expiry.next_due(), &far) << "it is further ahead than the groups reach";
	expiry.schedule(far, far.at);
	int early = 0;
	for (Nanoseconds now = Nanoseconds{1} << 53; now < far.at; now += Nanoseconds{1} << 52) {
		expiry.advance(now);
		while (Expiry::Entry* const due = expiry.next_due()) {
			++early;
			expiry.schedule(*due, due->at);
		}
	}
	EXPECT_GT(early, 10);
	expiry.advance(far.at + (Nanoseconds{1} << 52));
	EXPECT_EQ(expiry.next_due(), &far);
}

TEST(Expiry, RandomStepsAgreeWithAModel) {
	for (std::uint64_t seed = 1; seed <= 20; ++seed) {
		Random random(seed);
		Expiry expiry(1000);
		std::vector<Expiry::Entry> entries(300);
		struct Wanted {
			Nanoseconds when = 0, latest = 0;
		};
		std::map<Expiry::Entry*, Wanted> waiting;
		Nanoseconds now = 1000;
		for (int step = 0; step < 20'000; ++step) {
			Expiry::Entry& entry = entries[random.below(entries.size())];
			const std::uint64_t chosen = random.below(10);
			if (chosen < 5) {
				const Nanoseconds left = random() >> (12 + random.below(40));
				expiry.schedule(entry, now + left);
				waiting[&entry] = {.when = now + left, .latest = now + left + Expiry::late_max(left)};
			} else if (chosen < 6) {
				Expiry::cancel(entry);
				waiting.erase(&entry);
			} else {
				now += random() >> (24 + random.below(30));
				expiry.advance(now);
				while (Expiry::Entry* const due = expiry.next_due()) {
					ASSERT_TRUE(waiting.contains(due));
					ASSERT_LE(waiting[due].when, now) << "seed " << seed;
					waiting.erase(due);
				}
				for (const auto& [each, wanted] : waiting)
					ASSERT_GE(wanted.latest + TimerWheel::tick, now) << "seed " << seed;
			}
		}
		for (Expiry::Entry& each : entries) Expiry::cancel(each);
	}
}

}  // namespace
}  // namespace verbena::kv
