// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/swarm.h"

#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

TEST(Causes, AShortageOfThisSideIsNotTheServersFailure) {
	using channel::ConnectTrouble;
	EXPECT_EQ(cause_of(ConnectTrouble::no_descriptor), Cause::descriptors);
	EXPECT_EQ(cause_of(ConnectTrouble::no_port), Cause::ports);
	EXPECT_EQ(cause_of(ConnectTrouble::timed_out), Cause::timed_out);
	EXPECT_EQ(cause_of(ConnectTrouble::unreachable), Cause::connect);
	EXPECT_EQ(cause_of(ConnectTrouble::handshake), Cause::connect);
}

}  // namespace
}  // namespace verbena::scale
