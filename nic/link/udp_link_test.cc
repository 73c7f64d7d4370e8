#include "nic/link/udp_link.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic/link/loopback.h"

namespace verbena::link {
namespace {

TEST(UdpLink, BothFamiliesComeUpAndSayNothing) {
	const UdpLink link({.port = 0});
	for (const Family family : {Family::ipv4, Family::ipv6}) {
		EXPECT_TRUE(link.up(family)) << link.explain(family);
		EXPECT_EQ(link.explain(family), "");
		EXPECT_GE(link.receive_fd(family), 0);
		EXPECT_NE(link.source_port(family), 0);
	}
}

TEST(UdpLink, SeveralOfOneUserShareAPort) {
	const UdpLink first({.port = 0});
	const UdpLink second({.port = first.port(Family::ipv4)});
	EXPECT_TRUE(second.up(Family::ipv4)) << second.explain(Family::ipv4);
}

TEST(UdpLink, APortThatSomebodyElseHoldsIsAReasonAndTheOtherFamilyWorksOn) {
	const int holder = socket(AF_INET, SOCK_DGRAM, 0);
	sockaddr_in address{.sin_family = AF_INET};
	socklen_t size = sizeof address;
	ASSERT_EQ(bind(holder, reinterpret_cast<sockaddr*>(&address), size), 0);
	ASSERT_EQ(getsockname(holder, reinterpret_cast<sockaddr*>(&address), &size), 0);
	UdpLink link({.port = ntohs(address.sin_port)});
	EXPECT_FALSE(link.up(Family::ipv4));
	EXPECT_EQ(link.error(Family::ipv4), EADDRINUSE);
	EXPECT_NE(link.explain(Family::ipv4).find("bind: Address already in use"), std::string::npos) << link.explain(Family::ipv4);
	EXPECT_EQ(link.receive_fd(Family::ipv4), -1);
	EXPECT_TRUE(link.up(Family::ipv6)) << link.explain(Family::ipv6);
	EXPECT_EQ(link.receive(8, [](auto&&...) {}), 0u);
	close(holder);
}

TEST(UdpLink, WhatWasDownComesUpWhenThePortIsFree) {
	const int holder = socket(AF_INET, SOCK_DGRAM, 0);
	sockaddr_in address{.sin_family = AF_INET};
	socklen_t size = sizeof address;
	ASSERT_EQ(bind(holder, reinterpret_cast<sockaddr*>(&address), size), 0);
	ASSERT_EQ(getsockname(holder, reinterpret_cast<sockaddr*>(&address), &size), 0);
	UdpLink link({.port = ntohs(address.sin_port)});
	EXPECT_FALSE(link.reopen(Family::ipv4));
	close(holder);
	EXPECT_TRUE(link.reopen(Family::ipv4)) << link.explain(Family::ipv4);
	EXPECT_EQ(link.port(Family::ipv4), ntohs(address.sin_port));
}

// Two processes share a port, and the kernel gives a flow to one of them, whichever. It comes to the one that has asked for it.
TEST(UdpLink, ASteeredFlowComesToWhoeverAskedForIt) {
	for (const Family family : {Family::ipv4, Family::ipv6})
		for (const std::size_t owner : {0, 1}) {
			UdpLink first({.port = 0});
			UdpLink second({.port = first.port(family)});
			ASSERT_TRUE(second.up(family)) << second.explain(family);
			UdpLink sender({.port = 0});
			const wire::Gid here = loopback_gid(family);
			UdpPath path(sender, {.source = here, .destination = here, .destination_port = first.port(family)});
			wire::SlotWriter slots;
			slots.attach(path.direction());
			UdpLink& asks = owner == 0 ? first : second;
			asks.steer(here, here, sender.source_port(family));
			asks.steer(here, here, sender.source_port(family));
			EXPECT_EQ(asks.counters().steered, 1u);
			for (int i = 0; i < 20; ++i) {
				const auto room = slots.reserve(0, 0);
				room.slot->set_bth(wire::Opcode::rc_acknowledge, {0x1234}, {7}, 0);
				room.slot->set_aeth(wire::syndrome::ack, 0);
				room.slot->payload_line = room.payload_line;
				slots.publish(room.slot, 0);
			}
			ASSERT_TRUE(path.transmit());
			std::size_t packets = 0;
			pollfd wait{.fd = asks.ready_fd(), .events = POLLIN};
			while (packets < 20 && poll(&wait, 1, 2000) == 1)
				asks.receive(8, [&](const UdpPacket& packet) {
					++packets;
					EXPECT_EQ(packet.source_port, sender.source_port(family));
				});
			EXPECT_EQ(packets, 20u);
		}
}

TEST(UdpLink, ForeignDatagramsCostACounterEach) {
	UdpLink link({.port = 0});
	const int stranger = socket(AF_INET, SOCK_DGRAM, 0);
	const sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(link.port(Family::ipv4)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const auto say = [&](std::size_t size, unsigned char opcode) {
		std::vector<unsigned char> bytes(size);
		if (size != 0) bytes[0] = opcode;
		ASSERT_EQ(sendto(stranger, bytes.data(), size, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), static_cast<ssize_t>(size));
	};
	say(3, 0);
	say(5000, 0x04);
	say(32, 0x81);
	say(32, 0x04);
	std::size_t datagrams = 0;
	while (datagrams < 4) {
		pollfd wait{.fd = link.receive_fd(Family::ipv4), .events = POLLIN};
		ASSERT_EQ(poll(&wait, 1, 2000), 1);
		datagrams += link.receive(8, [](auto&&...) { FAIL(); });
	}
	const auto drops = [&](wire::DropReason reason) { return link.counters().drops[static_cast<std::size_t>(reason)]; };
	EXPECT_EQ(drops(wire::DropReason::too_short), 1u);
	EXPECT_EQ(drops(wire::DropReason::too_long), 1u);
	EXPECT_EQ(drops(wire::DropReason::unknown_opcode), 1u);
	EXPECT_EQ(drops(wire::DropReason::wrong_icrc), 1u);
	EXPECT_EQ(link.counters().packets_received, 4u);
	EXPECT_EQ(link.counters().bytes_received, 3u + 5000 + 32 + 32);
	close(stranger);
}

}  // namespace
}  // namespace verbena::link
