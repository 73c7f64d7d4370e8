// SPDX-License-Identifier: Apache-2.0
#include "nic/link/memberships.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "nic/link/udp_socket.h"

namespace verbena::link {
namespace {

constexpr int groups_of_test = 50;  // more than the kernel allows a socket of IPv4

wire::Gid group(Family family, int number) {
	wire::Gid gid{};
	if (family == Family::ipv4) gid = wire::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 79, 0, 0};
	else gid = wire::Gid{0xff, 0x02};
	gid[15] = static_cast<std::uint8_t>(number);
	return gid;
}

// A bound socket, and its port.
struct BoundReceiver {
	explicit BoundReceiver(Family family) : socket(open_receiver(family, 1 << 16)) {
		EXPECT_EQ(bind_to(socket.get(), family, {}, 0, port), 0);
	}
	Descriptor socket;
	std::uint16_t port = 0;
};

bool arrives(const BoundReceiver& receiver, const wire::Gid& to, unsigned interface_index) {
	const Descriptor sender(open_sender(Family::ipv4));
	const ip_mreqn through{.imr_multiaddr = {}, .imr_address = {}, .imr_ifindex = static_cast<int>(interface_index)};
	EXPECT_EQ(setsockopt(sender.get(), IPPROTO_IP, IP_MULTICAST_IF, &through, sizeof through), 0);
	SocketAddress address{};
	const socklen_t size = to_address(address, Family::ipv4, to, receiver.port);
	EXPECT_EQ(sendto(sender.get(), "a", 1, 0, &address.any, size), 1);
	pollfd wait{.fd = receiver.socket.get(), .events = POLLIN};
	if (poll(&wait, 1, 0) != 1) return false;  // the loopback delivers before sendto() returns
	char byte;
	return recv(receiver.socket.get(), &byte, 1, 0) == 1;
}

int next_descriptor() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get(); }

TEST(Memberships, AReceiverIsAMemberOfMoreGroupsThanTheKernelAllowsOneSocket) {
	const unsigned loopback = if_nametoindex("lo");
	for (const Family family : {Family::ipv4, Family::ipv6}) {
		const BoundReceiver receiver(family);
		const int free = next_descriptor();
		Memberships memberships;
		for (int i = 0; i < groups_of_test; ++i)
			ASSERT_EQ(memberships.join(receiver.socket.get(), group(family, i), loopback), 0) << i;
		// The loopback interface has no route for IPv6 multicast.
		for (int i = 0; i < groups_of_test && family == Family::ipv4; ++i)
			EXPECT_TRUE(arrives(receiver, group(family, i), loopback)) << i;
		for (int i = 0; i < groups_of_test; ++i)
			EXPECT_EQ(memberships.leave(receiver.socket.get(), group(family, i), loopback), 0) << i;
		EXPECT_FALSE(family == Family::ipv4 && arrives(receiver, group(family, groups_of_test - 1), loopback));
		EXPECT_EQ(next_descriptor(), free) << "no socket is left";
	}
}

TEST(Memberships, APlaceThatIsFreeAgainIsUsedBeforeAnotherSocketIsOpened) {
	const unsigned loopback = if_nametoindex("lo");
	const BoundReceiver receiver(Family::ipv4);
	Memberships memberships;
	const auto join = [&](int number) {
		return memberships.join(receiver.socket.get(), group(Family::ipv4, number), loopback);
	};
	for (int i = 0; i < groups_of_test; ++i) ASSERT_EQ(join(i), 0);
	const int free = next_descriptor();
	for (int round = 0; round < 100; ++round) {
		const int number = round % groups_of_test;
		ASSERT_EQ(memberships.leave(receiver.socket.get(), group(Family::ipv4, number), loopback), 0);
		ASSERT_EQ(join(number), 0);
	}
	EXPECT_EQ(next_descriptor(), free);
}

TEST(Memberships, AnErrorOtherThanALimitIsReturned) {
	const BoundReceiver receiver(Family::ipv4);
	Memberships memberships;
	const unsigned no_interface = 0x7fffffff;
	EXPECT_EQ(memberships.join(receiver.socket.get(), group(Family::ipv4, 1), no_interface), ENODEV);
	EXPECT_EQ(memberships.join(-1, group(Family::ipv4, 1), 1), EBADF);
}

}  // namespace
}  // namespace verbena::link
