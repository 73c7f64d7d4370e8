// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/pulse.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

// Counts the beats of a pulse until `enough`.
struct Beats {
	async::Task<void> count(Pulse& pulse, int enough) {
		for (; beats < enough; ++beats) co_await async::Park(pulse.beats());
	}
	int beats = 0;
};

TEST(Pulse, BeatsAtOnceWhenWorkComesAndAnnouncesIt) {
	async::Loop loop;
	int awoken = 0;
	Pulse pulse(loop, [&] { ++awoken; }, [] { return never; });
	loop.update_now();
	pulse.begin();
	pulse.quicken();
	pulse.quicken();
	EXPECT_EQ(awoken, 1);
	Beats beats;
	const Nanoseconds begin = monotonic_now();
	loop.complete(beats.count(pulse, 1));
	EXPECT_GE(monotonic_now() - begin, Pulse::quick / 2) << "a beat follows the work, and does not precede it";
}

TEST(Pulse, WithoutWorkASecondPassesBetweenTwoBeats) {
	async::Loop loop;
	Pulse pulse(loop, [] {}, [] { return never; });
	loop.update_now();
	pulse.begin();
	Beats beats;
	const Nanoseconds begin = monotonic_now();
	loop.complete(beats.count(pulse, 1));
	EXPECT_GE(monotonic_now() - begin, Pulse::slow / 2);
}

TEST(Pulse, WorkThatIsDueWithoutARequestKeepsItQuick) {
	async::Loop loop;
	int asked = 0;
	// At first there is work at once, and then none is known.
	Pulse pulse(loop, [] {}, [&] { return ++asked <= 2 ? Nanoseconds{0} : never; });
	loop.update_now();
	pulse.begin();
	Beats beats;
	loop.complete(beats.count(pulse, 2));
	EXPECT_EQ(asked, 3) << "each beat asks once";
}

}  // namespace
}  // namespace verbena::kv
