// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/watchpoint.h"

#include <atomic>
#include <cerrno>
#include <cstring>
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

// The kernel may refuse debug registers to this process; any other failure is ours.
bool is_refused(int error) { return error == EPERM || error == EACCES || error == ENOSYS || error == EOPNOTSUPP; }

class WatchpointTest : public testing::Test {
protected:
	void SetUp() override {
		errno = 0;
		if (touched.watch(address_of(words.read), 8)) return;
		ASSERT_TRUE(is_refused(errno)) << std::strerror(errno);
		GTEST_SKIP() << "no debug registers here";
	}
	void await_reads() const {
		while (touched.most().count < 8) std::this_thread::yield();
	}

	Words words;
	Poller poller{words.read};
	Watchpoint touched;
};

TEST_F(WatchpointTest, CountsTheReadsOfAnotherThreadAndKnowsWhere) {
	await_reads();
	EXPECT_NE(touched.most().next, 0u);
}

TEST_F(WatchpointTest, CountsNoAccessToAnotherWord) {
	Watchpoint untouched;
	ASSERT_TRUE(untouched.watch(address_of(words.other), 8));
	await_reads();
	EXPECT_EQ(untouched.most().count, 0u);
}

TEST_F(WatchpointTest, TheThreadThatWatchesIsNotCounted) {
	Watchpoint own;
	ASSERT_TRUE(own.watch(address_of(words.other), 8));
	for (int i = 0; i < 100; ++i) words.other.load(std::memory_order_acquire);
	EXPECT_EQ(own.most().count, 0u);
}

}  // namespace
}  // namespace verbena::rules
