// SPDX-License-Identifier: Apache-2.0
#include "nic/link/icmp_errors.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbena::link {
namespace {

wire::Gid host(std::uint8_t number) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, number}; }

TEST(UnreachableHosts, AHostHasItsLastReport) {
	UnreachableHosts hosts;
	EXPECT_FALSE(hosts.find(host(1)));
	EXPECT_FALSE(hosts.find({})) << "an unused entry is no report about the zero address";
	hosts.note(host(1), EHOSTUNREACH, 5);
	hosts.note(host(1), ECONNREFUSED, 7);
	ASSERT_TRUE(hosts.find(host(1)));
	EXPECT_EQ(hosts.find(host(1))->error, ECONNREFUSED);
	EXPECT_EQ(hosts.find(host(1))->at, 7u);
	EXPECT_FALSE(hosts.find(host(2)));
}

TEST(UnreachableHosts, TheHostWithTheOldestReportMakesRoom) {
	UnreachableHosts hosts;
	for (std::uint8_t i = 0; i < UnreachableHosts::hosts_max; ++i) hosts.note(host(i), ECONNREFUSED, 100u + i);
	hosts.note(host(0), ECONNREFUSED, 200);
	hosts.note(host(99), ECONNREFUSED, 201);
	EXPECT_TRUE(hosts.find(host(0)));
	EXPECT_FALSE(hosts.find(host(1)));
	EXPECT_TRUE(hosts.find(host(2)));
	EXPECT_TRUE(hosts.find(host(99)));
}

// The kernel puts the errors of its own calls into the same queue.
TEST(IcmpErrors, ADatagramAboveTheMtuIsNoIcmpMessage) {
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(ask_for_icmp(fd, true), 0);
	const int discover = IP_PMTUDISC_DO;
	ASSERT_EQ(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover), 0);
	const sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	static constexpr char bytes[65507] = {};
	// The loopback's MTU is 65536: the largest datagram with its headers fits exactly. An option
	// makes it too long.
	const unsigned char no_operations[4] = {1, 1, 1, 1};
	ASSERT_EQ(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, no_operations, sizeof no_operations), 0);
	ASSERT_EQ(sendto(fd, bytes, sizeof bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), -1);
	ASSERT_EQ(errno, EMSGSIZE);
	std::byte room[64];
	int messages = 0;
	for (; const auto read = next_icmp(fd, room); ++messages) EXPECT_EQ(read->error, 0);
	EXPECT_EQ(messages, 1);
	close(fd);
}

}  // namespace
}  // namespace verbena::link
