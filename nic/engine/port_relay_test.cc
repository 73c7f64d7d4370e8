// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/port_relay.h"

#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

#include "nic/engine/directory.h"
#include "nic/engine/listener_user.h"

namespace verbena::engine {
namespace {

using link::Family;

// tests/hostile/test_shared_port.py has the port in the hands of another user.
TEST(PortRelay, NoUserPassesOnPacketsToAProcessThatHasThePort) {
	link::UdpLink udp({.port = 0});
	PortRelay relay;
	EXPECT_FALSE(relay.begin(udp, Family::ipv4, 0));
	EXPECT_FALSE(relay.active(Family::ipv4));
	EXPECT_EQ(relay.retry_due(), never);
	EXPECT_FALSE(relay.admits(Family::ipv4, geteuid() + 1));
	EXPECT_FALSE(relay.admits(Family::ipv6, geteuid()));
	EXPECT_EQ(relay.refused(), 2u);
}

TEST(PortRelay, AUserAdmitsOthersWhileOneOfItsProcessesHasAPublicName) {
	constexpr uid_t no_user_here = 4'000'000'000;
	const Directory directory(geteuid(), std::nullopt, Peers::host);
	const auto listeners = directory.claim(Place::service(0x5e7'0f0f));
	ASSERT_TRUE(listeners) << std::strerror(listeners.error());
	const auto other = listens_publicly(no_user_here);
	if (!other) GTEST_SKIP() << "this kernel does not name the users of sockets";
	EXPECT_FALSE(*other);
	EXPECT_EQ(listens_publicly(geteuid()), true);
}

}  // namespace
}  // namespace verbena::engine
