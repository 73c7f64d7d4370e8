// SPDX-License-Identifier: Apache-2.0
#include "lib/async/loop.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lib/async/selector_fixture.h"

namespace verbena::async {
namespace {

Task<int> number(int value) { co_return value; }
Task<int> sum(int upto) {
	int total = 0;
	for (int i = 1; i <= upto; ++i) total += co_await number(i);
	co_return total;
}
Task<int> fails() {
	throw std::runtime_error("no");
	co_return 0;
}

TEST(Task, ResultsTravelThroughAwaits) {
	Loop loop;
	int total = 0;
	loop.complete([](int& out) -> Task<void> { out = co_await sum(1000); }(total));
	EXPECT_EQ(total, 500'500);
}

TEST(Task, AnExceptionReachesTheAwaiter) {
	Loop loop;
	std::string what;
	loop.complete([](std::string& out) -> Task<void> {
		try {
			co_await fails();
		} catch (const std::exception& error) {
			out = error.what();
		}
	}(what));
	EXPECT_EQ(what, "no");
}

class Loops : public WithEachSelector {};
INSTANTIATE_TEST_SUITE_P(By, Loops, each_selector, selector_name);

TEST_P(Loops, TimersExpireInTheirOrderAndNotEarly) {
	Loop loop(options());
	std::vector<int> order;
	const Nanoseconds start = monotonic_now();
	const auto sleeper = [](Loop& on, Nanoseconds until, int mark, std::vector<int>& out) -> Task<void> {
		co_await on.sleep_until(until);
		EXPECT_GE(monotonic_now(), until);
		out.push_back(mark);
	};
	loop.spawn(sleeper(loop, start + 3'000'000, 3, order));
	loop.spawn(sleeper(loop, start + 1'000'000, 1, order));
	loop.spawn(sleeper(loop, start + 2'000'000, 2, order));
	loop.run_until([&] { return loop.spawned() == 0; });
	EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_P(Loops, WorkPostedByAnotherThreadWakesASleepingLoop) {
	Loop loop(options(0));
	int count = 0;
	std::jthread other([&] {
		for (int i = 0; i < 1000; ++i) loop.post([&] { ++count; });
	});
	loop.run_until([&] { return count == 1000; });
	EXPECT_EQ(count, 1000);
}

TEST_P(Loops, StopFromAnotherThreadEndsASleep) {
	Loop loop(options(0));
	std::jthread other([&] { loop.stop(); });
	loop.run();
}

// Waits up to `ms` until the descriptor of a loop is readable.
bool readable(int descriptor, int ms) {
	pollfd of{.fd = descriptor, .events = POLLIN};
	return poll(&of, 1, ms) == 1;
}

TEST_P(Loops, TheDescriptorIsReadableWhenATimerExpires) {
	Loop loop(options());
	const int descriptor = loop.descriptor();
	if (loop.selector() == SelectorKind::uring) {
		EXPECT_EQ(descriptor, -1);
		return;
	}
	bool done = false;
	const Nanoseconds until = monotonic_now() + 20'000'000;
	loop.spawn([](Loop& on, Nanoseconds until, bool& done) -> Task<void> {
		co_await on.sleep_until(until);
		done = true;
	}(loop, until, done));
	while (!done) {
		loop.run_ready();
		loop.arm(false);
		ASSERT_TRUE(done || readable(descriptor, 10'000));
	}
	EXPECT_GE(monotonic_now(), until);
	EXPECT_FALSE(readable(descriptor, 0));
}

TEST_P(Loops, TheDescriptorIsReadableWhenAnotherThreadPostsWork) {
	Loop loop(options());
	const int descriptor = loop.descriptor();
	if (descriptor < 0) return;
	int count = 0;
	loop.run_ready();
	loop.arm(false);
	EXPECT_FALSE(readable(descriptor, 0));
	std::jthread other([&] { loop.post([&] { ++count; }); });
	ASSERT_TRUE(readable(descriptor, 10'000));
	other.join();
	loop.run_ready();
	EXPECT_EQ(count, 1);
}

TEST_P(Loops, TheDescriptorIsReadableWhileWorkIsLeft) {
	Loop loop(options());
	const int descriptor = loop.descriptor();
	if (descriptor < 0) return;
	bool done = false;
	loop.spawn([](bool& done) -> Task<void> {
		done = true;
		co_return;
	}(done));
	loop.arm(false);
	EXPECT_TRUE(readable(descriptor, 0));
	loop.run_ready();
	EXPECT_TRUE(done);
	loop.arm(true);
	EXPECT_TRUE(readable(descriptor, 0));
	loop.run_ready();
	loop.arm(false);
	EXPECT_FALSE(readable(descriptor, 0));
}

// Counts how often the loop was about to sleep, and keeps it awake.
class Insomniac : public Poller {
public:
	explicit Insomniac(Loop& loop) : loop_(loop) { loop_.add(*this); }
	~Insomniac() {
		loop_.remove(*this);
		close(descriptor_);
	}
	std::size_t poll() override { return 0; }
	bool arm() override {
		++nights;
		return false;
	}
	void acknowledge() override {}
	int descriptor() const override { return descriptor_; }

	int nights = 0;

private:
	Loop& loop_;
	int descriptor_ = eventfd(0, EFD_CLOEXEC);
};

TEST_P(Loops, ALoopThatExpectsWorkPollsUntilThen) {
	Loop loop(options(1));
	Insomniac insomniac(loop);
	loop.update_now();
	const Nanoseconds when = loop.now() + 5'000'000;
	loop.expect_work(when);
	loop.expect_work(when - 4'000'000);  // an earlier time changes nothing
	loop.run_until([&] { return loop.now() >= when || insomniac.nights > 0; });
	EXPECT_GE(loop.now(), when);
	loop.run_until([&] { return insomniac.nights > 0; });
}

TEST_P(Loops, ALoopThatShallNotPollSleepsAlthoughItExpectsWork) {
	Loop loop(options(0));
	Insomniac insomniac(loop);
	loop.expect_work(never);
	loop.run_until([&] { return insomniac.nights > 0; });
}

TEST_P(Loops, ASuspendedTaskIsDestroyedWithTheLoop) {
	struct Mark {
		bool& gone;
		~Mark() { gone = true; }
	};
	bool gone = false;
	{
		Loop loop(options());
		loop.spawn([](Loop& on, bool& flag) -> Task<void> {
			const Mark mark{flag};
			co_await on.sleep_until(never - 1);
		}(loop, gone));
		int turns = 0;
		loop.run_until([&] { return ++turns == 3; });
		EXPECT_FALSE(gone);
	}
	EXPECT_TRUE(gone);
}

TEST_P(Loops, AbandonSpawnedDestroysPostedWorkThatDidNotRun) {
	Loop loop(options());
	auto owned = std::make_shared<int>(0);
	loop.post([owned, &loop] { loop.stop(); });
	EXPECT_EQ(owned.use_count(), 2);
	loop.abandon_spawned();
	EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace verbena::async
