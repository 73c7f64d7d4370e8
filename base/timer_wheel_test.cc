// SPDX-License-Identifier: Apache-2.0
#include "base/timer_wheel.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"

namespace verbena {
namespace {

constexpr Nanoseconds start = 1'700'000'000'123'456'789;
constexpr Nanoseconds up_to_tick(Nanoseconds t) {
	return (t + TimerWheel::tick - 1) / TimerWheel::tick * TimerWheel::tick;
}

struct Wheel {
	TimerWheel timers{start};
	std::vector<TimerEntry*> expired;
	void advance(Nanoseconds now) {
		expired.clear();
		timers.advance(now, [&](TimerEntry& entry) { expired.push_back(&entry); });
	}
};

TEST(TimerWheel, AnEntryNeverExpiresEarlyAndAtMostATickLate) {
	for (const Nanoseconds delay : {1ull, 4096ull, 5000ull, 1'000'000ull, 3'600'000'000'000ull, 1ull << 60}) {
		Wheel wheel;
		TimerEntry entry;
		wheel.timers.schedule(entry, start + delay);
		wheel.advance(start + delay - 1);
		EXPECT_TRUE(wheel.expired.empty()) << delay;
		wheel.advance(start + delay + TimerWheel::tick);
		EXPECT_EQ(wheel.expired, std::vector{&entry}) << delay;
		EXPECT_FALSE(entry.scheduled());
		EXPECT_EQ(wheel.timers.size(), 0u);
	}
}

TEST(TimerWheel, ADeadlineInThePastExpiresAtTheNextAdvance) {
	Wheel wheel;
	TimerEntry entry;
	wheel.timers.schedule(entry, 5);
	wheel.advance(start);
	EXPECT_EQ(wheel.expired.size(), 1u);
}

TEST(TimerWheel, ACancelledEntryDoesNotExpireAndLeavesNoTrace) {
	Wheel wheel;
	TimerEntry entry;
	wheel.timers.schedule(entry, start + 1'000'000);
	wheel.timers.cancel(entry);
	wheel.timers.cancel(entry);
	EXPECT_EQ(wheel.timers.next_expiry(), never);
	wheel.advance(start + 10'000'000);
	EXPECT_TRUE(wheel.expired.empty());
}

TEST(TimerWheel, SchedulingAgainMovesAnEntry) {
	Wheel wheel;
	TimerEntry entry;
	wheel.timers.schedule(entry, start + 1'000'000);
	wheel.timers.schedule(entry, start + 2'000'000);
	EXPECT_EQ(wheel.timers.size(), 1u);
	wheel.advance(start + 1'500'000);
	EXPECT_TRUE(wheel.expired.empty());
	wheel.timers.schedule(entry, never);
	EXPECT_FALSE(entry.scheduled());
}

TEST(TimerWheel, FollowingNextExpiryReachesADistantDeadlineInFewSteps) {
	Wheel wheel;
	TimerEntry entry;
	const Nanoseconds deadline = start + 3'600'000'000'000;
	wheel.timers.schedule(entry, deadline);
	int steps = 0;
	Nanoseconds now = start;
	while (wheel.expired.empty()) {
		ASSERT_GT(wheel.timers.next_expiry(), now);
		now = wheel.timers.next_expiry();
		ASSERT_LE(now, up_to_tick(deadline));
		wheel.advance(now);
		ASSERT_LE(++steps, 9);
	}
	EXPECT_EQ(now, up_to_tick(deadline));
}

TEST(TimerWheel, AnEntryMayScheduleItselfAgainInItsCallback) {
	TimerWheel timers(start);
	TimerEntry entry;
	int expired = 0;
	timers.schedule(entry, start + 10'000);
	timers.advance(start + 1'000'000, [&](TimerEntry& e) {
		++expired;
		timers.schedule(e, start);  // in the past: not called again by this advance()
	});
	EXPECT_EQ(expired, 1);
	timers.advance(start + 1'000'000 + 2 * TimerWheel::tick, [&](TimerEntry&) { ++expired; });
	EXPECT_EQ(expired, 2);
}

TEST(TimerWheel, ACallbackMayCancelOthersThatExpireWithIt) {
	TimerWheel timers(start);
	TimerEntry one, other;
	int expired = 0;
	timers.schedule(one, start + 10'000);
	timers.schedule(other, start + 10'000);
	timers.advance(start + 1'000'000, [&](TimerEntry& e) {
		++expired;
		timers.cancel(&e == &one ? other : one);
	});
	EXPECT_EQ(expired, 1);
	EXPECT_EQ(timers.size(), 0u);
	EXPECT_EQ(timers.next_expiry(), never);
}

TEST(TimerWheel, AClockThatGoesBackDoesNothing) {
	Wheel wheel;
	TimerEntry entry;
	wheel.advance(start + 1'000'000);
	wheel.timers.schedule(entry, start + 2'000'000);
	wheel.advance(start);
	EXPECT_TRUE(wheel.expired.empty());
	wheel.advance(start + 2'100'000);
	EXPECT_EQ(wheel.expired.size(), 1u);
}

// Compares with a plain model: an ordered map from deadline to entry.
TEST(TimerWheel, DoesWhatAnOrderedMapDoes) {
	for (std::uint64_t seed = 1; seed <= 30; ++seed) {
		Random random(seed);
		constexpr std::size_t count = 300;
		const auto entries = std::make_unique<TimerEntry[]>(count);
		std::multimap<Nanoseconds, std::size_t> model;
		std::vector<std::multimap<Nanoseconds, std::size_t>::iterator> place(count, model.end());
		Nanoseconds now = start + random.below(1'000'000'000);
		TimerWheel timers(now);
		const auto remove = [&](std::size_t i) {
			if (place[i] != model.end()) model.erase(std::exchange(place[i], model.end()));
		};
		for (int step = 0; step < 3000; ++step) {
			const std::size_t i = random.below(count);
			if (random.chance(0.5)) {
				const Nanoseconds deadline = now + 1 + random.below(std::uint64_t{1} << random.below(45));
				timers.schedule(entries[i], deadline);
				remove(i);
				place[i] = model.emplace(up_to_tick(deadline), i);
			} else if (random.chance(0.3)) {
				timers.cancel(entries[i]);
				remove(i);
			} else {
				ASSERT_LE(timers.next_expiry(), model.empty() ? never : model.begin()->first);
				now = random.chance(0.3) && timers.next_expiry() != never
					? std::max(now, timers.next_expiry())
					: now + random.below(std::uint64_t{1} << random.below(42));
				Nanoseconds last = 0;
				timers.advance(now, [&](TimerEntry& entry) {
					const auto index = static_cast<std::size_t>(&entry - entries.get());
					ASSERT_NE(place[index], model.end()) << "seed " << seed;
					ASSERT_LE(place[index]->first, now);
					ASSERT_GE(place[index]->first, last);
					last = place[index]->first;
					remove(index);
				});
				ASSERT_TRUE(model.empty() || model.begin()->first > now) << "seed " << seed << " step " << step;
			}
			ASSERT_EQ(timers.size(), model.size());
		}
		for (std::size_t i = 0; i < count; ++i) timers.cancel(entries[i]);
		EXPECT_EQ(timers.next_expiry(), never);
	}
}

}  // namespace
}  // namespace verbena
