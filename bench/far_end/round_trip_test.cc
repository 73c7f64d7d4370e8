// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/round_trip.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

TEST(RoundTrip, IsMeasuredBetweenTwoProcesses) {
	RoundTrip page = RoundTrip::create();
	page.reset();
	const pid_t child = fork();
	if (child == 0) {
		RoundTrip::open(dup(page.fd())).answer();
		_exit(0);
	}
	const auto took = page.ask();
	waitpid(child, nullptr, 0);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "one core: the two sides cannot spin at once";
	ASSERT_TRUE(took);
	EXPECT_GT(*took, 5);
	EXPECT_LT(*took, 1e6);
}

TEST(RoundTrip, WithoutAnAnswerThereIsNoFigure) {
	RoundTrip page = RoundTrip::create();
	page.reset();
	EXPECT_FALSE(page.ask());
}

TEST(RoundTrip, ClosesItsDescriptorAtItsEndAndNotWhenItMoves) {
	int fd = -1;
	{
		RoundTrip page = RoundTrip::create();
		fd = page.fd();
		const RoundTrip moved = std::move(page);
		EXPECT_GE(fcntl(fd, F_GETFD), 0);
	}
	EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(RoundTrip, ClassesAreByDistance) {
	EXPECT_EQ(class_of(52), "smt");
	EXPECT_EQ(class_of(84.9), "smt");
	EXPECT_EQ(class_of(85), "near");
	EXPECT_EQ(class_of(200), "near");
	EXPECT_EQ(class_of(200.1), "far");
	EXPECT_EQ(class_of(340), "far");
}

}  // namespace
}  // namespace verbena::bench
