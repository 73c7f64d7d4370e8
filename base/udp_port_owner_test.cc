// SPDX-License-Identifier: Apache-2.0
#include "base/udp_port_owner.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbena {
namespace {

TEST(UdpPortOwner, IsReadFromLinesOfBothTables) {
	// Port 4791 is 0x12B7. The second line is of /proc/net/udp6.
	EXPECT_EQ(udp_port_owner_in("  120: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000"
								"        0 12345 2 0000000000000000 0\n",
				  4791),
		1000u);
	EXPECT_EQ(udp_port_owner_in("   77: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 "
								"00000000:00000000 00:00000000 00000000     0        0 4242 2 0000000000000000 0\n",
				  4791),
		0u);
}

TEST(UdpPortOwner, OtherPortsAndTheHeadingDoNotCount) {
	EXPECT_FALSE(
		udp_port_owner_in("  120: 00000000:12B8 00000000:12B7 07 00000000:00000000 00:00000000 00000000  1000"
						  "        0 12345 2 0000000000000000 0\n",
			4791));
	EXPECT_FALSE(udp_port_owner_in(
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n", 4791));
	EXPECT_FALSE(udp_port_owner_in("", 4791));
}

TEST(UdpPortOwner, IsThisUserForASocketOfThisProcess) {
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sockaddr_in address{.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	socklen_t size = sizeof address;
	ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
	ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
	EXPECT_EQ(udp_port_owner(ntohs(address.sin_port)), geteuid());
	close(fd);
}

}  // namespace
}  // namespace verbena
