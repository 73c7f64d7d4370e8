// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

// Each line is printed by a process of its own, which reads VERBENA_LOG afresh: the child of a
// GoogleTest death test, whose standard error is compared.
namespace verbena::log {
namespace {

using testing::AllOf;
using testing::Eq;
using testing::ExitedWithCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

// Sets VERBENA_LOG, prints a line of each level, and exits.
[[noreturn]] void print_each_level(const char* wanted) {
	if (wanted) setenv("VERBENA_LOG", wanted, 1);
	else unsetenv("VERBENA_LOG");
	error("one");
	warn("two");
	info("three");
	debug("four");
	std::_Exit(0);
}

TEST(Log, PrintsOnlyErrorsByDefault) {
	EXPECT_EXIT(print_each_level(nullptr), ExitedWithCode(0), Eq("verbena: error: one\n"));
	EXPECT_EXIT(print_each_level(""), ExitedWithCode(0), Eq("verbena: error: one\n"));
}

TEST(Log, PrintsTheNamedLevelAndThoseAbove) {
	EXPECT_EXIT(print_each_level("warn"), ExitedWithCode(0), Eq("verbena: error: one\nverbena: warn: two\n"));
	EXPECT_EXIT(print_each_level("info"), ExitedWithCode(0),
		Eq("verbena: error: one\nverbena: warn: two\nverbena: info: three\n"));
}

TEST(Log, GivesTimeAndThreadAtDebug) {
	EXPECT_EXIT(print_each_level("debug"), ExitedWithCode(0),
		AllOf(HasSubstr("verbena: info: three\n"), MatchesRegex("[^]]*debug: [0-9]+\\.[0-9]+ \\[[0-9]+\\] four\n")));
}

TEST(Log, AWrongLevelIsNamedWithTheAllowedOnes) {
	EXPECT_EXIT(print_each_level("loud"), ExitedWithCode(0),
		Eq("verbena: error: VERBENA_LOG=loud is none of error, warn, info, debug, so only errors are printed\n"
		   "verbena: error: one\n"));
}

TEST(Log, RefuseSetsAndReturnsTheErrno) {
	EXPECT_EXIT(
		{
			setenv("VERBENA_LOG", "info", 1);
			errno = 0;
			const int returned = refuse(EINVAL, "ibv_create_cq: cqe %d is below 1", -3);
			std::_Exit(returned == EINVAL && errno == EINVAL ? 0 : 1);
		},
		ExitedWithCode(0), Eq("verbena: info: ibv_create_cq: cqe -3 is below 1\n"));
	EXPECT_EXIT(
		{
			unsetenv("VERBENA_LOG");
			errno = 0;
			std::_Exit(refuse(EBUSY, "in use") == EBUSY && errno == EBUSY ? 0 : 1);
		},
		ExitedWithCode(0), IsEmpty());
	EXPECT_EXIT(
		{
			unsetenv("VERBENA_LOG");
			std::_Exit(refuse(EMFILE, "it needs one") == EMFILE ? 0 : 1);
		},
		ExitedWithCode(0), Eq("verbena: error: it needs one; raise the limit of descriptors (ulimit -n)\n"));
}

TEST(Log, ARepeatedLineIsPrintedOnce) {
	EXPECT_EXIT(
		{
			for (int i = 0; i < 1000; ++i) error("again");
			error("another");
			std::_Exit(0);
		},
		ExitedWithCode(0), Eq("verbena: error: again\nverbena: error: another\n"));
}

TEST(Log, ALongTextIsCutAndStillEndsItsLine) {
	EXPECT_EXIT(
		{
			error("%s", std::string(10'000, 'x').c_str());
			std::_Exit(0);
		},
		ExitedWithCode(0), MatchesRegex("verbena: error: x+\n"));
}

TEST(Log, KeepsErrno) {
	EXPECT_EXIT(
		{
			close(STDERR_FILENO);
			errno = ENOTTY;
			error("lost");
			std::_Exit(errno == ENOTTY ? 0 : 1);
		},
		ExitedWithCode(0), IsEmpty());
}

TEST(Log, StandardErrorWithoutAReaderDoesNotKillTheProgram) {
	EXPECT_EXIT(
		{
			int ends[2];
			if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) std::_Exit(2);
			close(ends[0]);
			error("lost");
			sigset_t pending;
			sigpending(&pending);
			std::_Exit(sigismember(&pending, SIGPIPE) ? 1 : 0);
		},
		ExitedWithCode(0), IsEmpty());
}

TEST(Log, AFullPipeDoesNotStopTheProgram) {
	EXPECT_EXIT(
		{
			int ends[2];
			if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
				std::_Exit(2);
			alarm(20);
			for (int i = 0; i < 1000; ++i) error("line %d", i);
			std::_Exit(0);
		},
		ExitedWithCode(0), IsEmpty());
}

}  // namespace
}  // namespace verbena::log
