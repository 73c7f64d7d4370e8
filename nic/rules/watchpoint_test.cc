// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/watchpoint.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace verbena::rules {
namespace {

struct Words {
	alignas(64) std::atomic<std::uint64_t> read = 0;
	alignas(64) std::atomic<std::uint64_t> other = 0;
};

std::uint64_t address_of(const std::atomic<std::uint64_t>& word) { return reinterpret_cast<std::uint64_t>(&word); }

// A thread that reads a word until the test ends.
class Poller {
public:
	explicit Poller(const std::atomic<std::uint64_t>& word)
		: thread_([this, &word] {
			  runs_ = true;
			  while (word.load(std::memory_order_acquire) == 0 && runs_.load(std::memory_order_relaxed)) {}
		  }) {
		while (!runs_) std::this_thread::yield();
	}
	~Poller() {
		runs_ = false;
		thread_.join();
	}

private:
	std::atomic<bool> runs_ = false;
	std::thread thread_;
};

TEST(Watchpoint, CountsTheReadsOfAnotherThreadAndKnowsWhere) {
	Words words;
	const Poller poller(words.read);
	Watchpoint watchpoint;
	if (!watchpoint.watch(address_of(words.read), 8)) GTEST_SKIP() << "no debug registers here";
	while (watchpoint.most().count < 8) std::this_thread::yield();
	EXPECT_NE(watchpoint.most().next, 0u);
}

TEST(Watchpoint, CountsNoAccessToAnotherWord) {
	Words words;
	const Poller poller(words.read);
	Watchpoint untouched;
	untouched.watch(address_of(words.other), 8);
	Watchpoint touched;
	if (!touched.watch(address_of(words.read), 8)) GTEST_SKIP() << "no debug registers here";
	while (touched.most().count < 8) std::this_thread::yield();
	EXPECT_EQ(untouched.most().count, 0u);
}

TEST(Watchpoint, TheThreadThatWatchesIsNotCounted) {
	Words words;
	Watchpoint watchpoint;
	watchpoint.watch(address_of(words.read), 8);
	for (int i = 0; i < 100; ++i) words.read.load(std::memory_order_acquire);
	EXPECT_EQ(watchpoint.most().count, 0u);
}

}  // namespace
}  // namespace verbena::rules
