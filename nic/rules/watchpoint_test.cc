// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/watchpoint.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
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

void end_unless_without_cause(int, siginfo_t* info, void* context) {
	if (!is_watch_without_cause(*info, *static_cast<const ucontext_t*>(context))) std::abort();
}

class WatchpointTest : public testing::Test {
protected:
	void SetUp() override {
		struct sigaction action{};
		action.sa_sigaction = end_unless_without_cause;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGTRAP, &action, nullptr);
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

TEST(WatchWithoutCause, IsATrapBehindAnInstructionThatIsNoTrap) {
	const unsigned char code[] = {0x90, 0xf1, 0xcc};  // NOP, INT1, INT3
	siginfo_t info{};
	const auto is_one = [&](int signal_code, std::size_t instruction) {
		ucontext_t context{};
		context.uc_mcontext.gregs[REG_RIP] =
			static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(&code[instruction + 1]));
		info.si_code = signal_code;
		return is_watch_without_cause(info, context);
	};
	EXPECT_TRUE(is_one(TRAP_BRKPT, 0));
	EXPECT_FALSE(is_one(TRAP_BRKPT, 1));
	EXPECT_FALSE(is_one(SI_KERNEL, 2)) << "the code of INT3";
	for (const int code_of_another : {int{TRAP_TRACE}, int{TRAP_HWBKPT}, int{SI_USER}, int{SI_TKILL}})
		EXPECT_FALSE(is_one(code_of_another, 0)) << code_of_another;
}

}  // namespace
}  // namespace verbena::rules
