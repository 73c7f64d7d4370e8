// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/silent_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace verbena::engine {
namespace {

using Reason = SilentProcess::Reason;

// A child that does nothing, with these descriptors and no others.
class SilentProcessTest : public ::testing::Test {
protected:
	void start(std::initializer_list<int> descriptors) {
		int ready[2];
		ASSERT_EQ(pipe(ready), 0);
		child_ = fork();
		ASSERT_GE(child_, 0);
		if (child_ == 0) {
			const int to_parent = dup2(ready[1], 100);
			if (to_parent < 0) _exit(1);
			for (int fd = 0; fd < to_parent; ++fd) close(fd);
			for (const int fd : descriptors) dup2(to_parent, fd);
			if (write(to_parent, "r", 1) == 1) close(to_parent);
			for (;;) pause();
		}
		close(ready[1]);
		char byte;
		ASSERT_EQ(read(ready[0], &byte, 1), 1);
		close(ready[0]);
	}
	void TearDown() override {
		kill(child_, SIGKILL);
		waitpid(child_, nullptr, 0);
	}
	void limit_descriptors(rlim_t count) {
		rlimit limit{};
		ASSERT_EQ(prlimit(child_, RLIMIT_NOFILE, nullptr, &limit), 0);
		limit.rlim_cur = count;
		ASSERT_EQ(prlimit(child_, RLIMIT_NOFILE, &limit, nullptr), 0);
	}
	static Reason last_of(SilentProcess& process, int looks) {
		Reason reason{};
		for (int i = 0; i < looks; ++i) reason = process.look();
		return reason;
	}

	pid_t child_ = -1;
};

TEST_F(SilentProcessTest, AStoppedProcessIsFoundUntilItIsContinued) {
	start({0, 1, 2});
	SilentProcess process(child_);
	EXPECT_EQ(last_of(process, 10), Reason::unknown);
	ASSERT_EQ(kill(child_, SIGSTOP), 0);
	int status;
	ASSERT_EQ(waitpid(child_, &status, WUNTRACED), child_);
	EXPECT_EQ(last_of(process, 4), Reason::unknown);
	EXPECT_EQ(process.look(), Reason::stopped);
	ASSERT_EQ(kill(child_, SIGCONT), 0);
	ASSERT_EQ(waitpid(child_, &status, WCONTINUED), child_);
	EXPECT_EQ(process.look(), Reason::unknown);
}

TEST_F(SilentProcessTest, AProcessWithoutDescriptorsIsFoundUntilItHasOne) {
	start({0, 1, 2});
	SilentProcess process(child_);
	limit_descriptors(3);
	EXPECT_EQ(last_of(process, 3), Reason::unknown);
	EXPECT_EQ(process.look(), Reason::without_descriptors);
	limit_descriptors(4);
	EXPECT_EQ(process.look(), Reason::unknown);
}

TEST_F(SilentProcessTest, ADescriptorAboveTheLimitLeavesRoomBelow) {
	start({0, 1, 2, 9});
	SilentProcess process(child_);
	limit_descriptors(4);
	EXPECT_EQ(last_of(process, 10), Reason::unknown);
	limit_descriptors(3);
	EXPECT_EQ(last_of(process, 4), Reason::without_descriptors);
}

TEST_F(SilentProcessTest, NothingIsKnownOfAProcessThatCannotBeSeen) {
	start({0});
	SilentProcess foreign(0);
	EXPECT_EQ(last_of(foreign, 10), Reason::unknown);
	ASSERT_EQ(kill(child_, SIGKILL), 0);
	ASSERT_EQ(waitpid(child_, nullptr, 0), child_);
	SilentProcess ended(child_);
	EXPECT_EQ(last_of(ended, 10), Reason::unknown);
}

}  // namespace
}  // namespace verbena::engine
