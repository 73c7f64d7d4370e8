// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_link.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "nic/link/loopback.h"
#include "nic/wire/deth.h"
#include "nic/wire/mad.h"

namespace verbena::link {
namespace {

// A port of IPv4 that a socket has which does not share it, like one of another user.
class TakenPort {
public:
	TakenPort() { EXPECT_EQ(bind_to(socket_, Family::ipv4, {}, 0, port_), 0); }
	~TakenPort() { release(); }
	TakenPort(const TakenPort&) = delete;
	TakenPort& operator=(const TakenPort&) = delete;

	std::uint16_t port() const { return port_; }
	void release() {
		if (socket_ >= 0) close(std::exchange(socket_, -1));
	}

private:
	int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	std::uint16_t port_ = 0;
};

TEST(UdpLink, BothFamiliesComeUp) {
	const UdpLink link({.port = 0});
	for (const Family family : {Family::ipv4, Family::ipv6}) {
		EXPECT_TRUE(link.up(family)) << std::strerror(link.error(family));
		EXPECT_NE(link.source_port(family), 0);
	}
}

TEST(UdpLink, SeveralLinksOfOneUserShareAPort) {
	const UdpLink first({.port = 0});
	const UdpLink second({.port = first.port(Family::ipv4)});
	EXPECT_TRUE(second.up(Family::ipv4)) << std::strerror(second.error(Family::ipv4));
}

TEST(UdpLink, AFamilyWhosePortIsTakenIsDownWithAReasonAndTheOtherIsUp) {
	TakenPort taken;
	UdpLink link({.port = taken.port()});
	EXPECT_FALSE(link.up(Family::ipv4));
	EXPECT_EQ(link.error(Family::ipv4), EADDRINUSE);
	EXPECT_TRUE(link.up(Family::ipv6)) << std::strerror(link.error(Family::ipv6));
	EXPECT_EQ(link.receive(8, [](auto&&...) {}), 0u);
	taken.release();
}

// Another user's processes then receive this process's packets, and forward them.
TEST(UdpLink, AFamilyWhosePortIsTakenCanStillSend) {
	UdpLink receiver({.port = 0});
	TakenPort taken;
	UdpLink sender({.port = taken.port()});
	ASSERT_FALSE(sender.up(Family::ipv4));
	EXPECT_TRUE(sender.sends(Family::ipv4));
	const wire::Gid here = loopback_gid(Family::ipv4);
	UdpPath path(sender, {.source = here, .destination = here, .destination_port = receiver.port(Family::ipv4)});
	wire::SlotWriter slots;
	slots.attach(path.direction());
	const auto room = slots.reserve(0, 0);
	room.slot->set_bth(wire::Opcode::rc_acknowledge, {0x1234}, {7}, 0);
	room.slot->set_aeth(wire::syndrome::ack, 0);
	room.slot->payload_line = room.payload_line;
	slots.publish(room.slot, 0);
	ASSERT_TRUE(path.transmit());
	EXPECT_EQ(receiver.receive(8, [](auto&&...) {}), 1u);
	EXPECT_EQ(receiver.counters().packets_received, 1u);
	taken.release();
}

// It closed them, and packets then left with another source port than their checksum covers.
TEST(UdpLink, ATryToTakeThePortWithoutADescriptorKeepsTheSocketsToSendFrom) {
	TakenPort taken;
	UdpLink link({.port = taken.port()});
	const std::uint16_t source_port = link.source_port(Family::ipv4);
	rlimit before{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	EXPECT_FALSE(link.reopen(Family::ipv4));
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	EXPECT_EQ(link.error(Family::ipv4), EMFILE);
	EXPECT_TRUE(link.sends(Family::ipv4));
	taken.release();
	EXPECT_TRUE(link.reopen(Family::ipv4)) << std::strerror(link.error(Family::ipv4));
	EXPECT_EQ(link.source_port(Family::ipv4), source_port);
}

TEST(UdpLink, AFamilyThatWasDownComesUpWhenItsPortIsFree) {
	TakenPort taken;
	UdpLink link({.port = taken.port()});
	EXPECT_FALSE(link.reopen(Family::ipv4));
	taken.release();
	EXPECT_TRUE(link.reopen(Family::ipv4)) << std::strerror(link.error(Family::ipv4));
	EXPECT_EQ(link.port(Family::ipv4), taken.port());
}

// Two processes share a port, and the kernel gives a flow to either of them. After steer() it
// arrives at the process that called it.
TEST(UdpLink, ASteeredFlowArrivesAtTheLinkThatSteeredIt) {
	for (const Family family : {Family::ipv4, Family::ipv6})
		for (const std::size_t owner : {0, 1}) {
			UdpLink first({.port = 0});
			UdpLink second({.port = first.port(family)});
			ASSERT_TRUE(second.up(family)) << std::strerror(second.error(family));
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

// A datagram to a port without a receiver comes back as an ICMP message. The link reports it as a
// refusal for a management datagram only, with its transaction ID. Neither socket loses its next
// packet to it.
TEST(UdpLink, PortUnreachableIsARefusalForManagementDatagramsOnly) {
	for (const Family family : {Family::ipv4, Family::ipv6}) {
		std::uint16_t unused_port = 0;
		{
			const UdpLink gone({.port = 0});
			unused_port = gone.port(family);
		}
		Loopback pair(family);
		const wire::Gid here = loopback_gid(family);
		UdpPath to_unused_port(pair.sender, {.source = here, .destination = here, .destination_port = unused_port});
		wire::SlotWriter slots;
		slots.attach(to_unused_port.direction());
		const auto write = [](wire::SlotWriter& to, wire::Qpn destination, std::span<const std::byte> payload) {
			wire::Slot slot;
			slot.set_bth(wire::Opcode::ud_send_only, destination, {}, 1 << wire::slot_mtu_shift);
			slot.deth = {wire::general_services_q_key, 0};
			const auto room = to.reserve(static_cast<std::uint32_t>(payload.size()), wire::deth_size);
			slot.payload_line = room.payload_line;
			*room.slot = slot;
			std::ranges::copy(payload, room.payload);
			to.publish(room.slot, static_cast<std::uint32_t>(payload.size()));
		};
		wire::Mad mad{};
		wire::write_mad_header(mad, {.transaction_id = 0x1234'5678'9abc'def0});

		write(slots, {0x777}, mad);
		ASSERT_TRUE(to_unused_port.transmit());
		write(pair.slots, {0x777}, mad);
		ASSERT_TRUE(pair.path.transmit());
		EXPECT_EQ(pair.receive(1).size(), 1u) << "the data socket has a pending error";
		pair.sender.receive(8, [](auto&&...) {});
		EXPECT_TRUE(pair.sender.take_refusals().empty());

		write(slots, wire::general_services_qpn, mad);
		ASSERT_TRUE(to_unused_port.transmit());
		write(pair.slots, wire::general_services_qpn, mad);  // the socket has a pending error
		ASSERT_TRUE(pair.path.transmit());
		EXPECT_EQ(pair.receive(1).size(), 1u);

		write(slots, wire::general_services_qpn, mad);
		ASSERT_TRUE(to_unused_port.transmit());
		std::vector<Refusal> refusals;
		pollfd wait{.fd = pair.sender.ready_fd(), .events = POLLIN};
		while (refusals.empty() && poll(&wait, 1, 2000) == 1) {
			pair.sender.receive(8, [](auto&&...) {});
			refusals = pair.sender.take_refusals();
		}
		ASSERT_FALSE(refusals.empty());
		EXPECT_EQ(refusals[0].by, here);
		EXPECT_EQ(refusals[0].transaction_id, 0x1234'5678'9abc'def0u);
		pair.sender.receive(8, [](auto&&...) {});
		EXPECT_EQ(poll(&wait, 1, 0), 0) << "the error queue is empty";
	}
}

// Each ICMP message makes a send fail, and up to 20 wait in the queue here.
TEST(UdpLink, IcmpMessagesExplainAndLoseNoPacket) {
	for (const Family family : {Family::ipv4, Family::ipv6}) {
		std::uint16_t unused_port = 0;
		{
			const UdpLink gone({.port = 0});
			unused_port = gone.port(family);
		}
		Loopback pair(family, {.port = 0, .segmentation = false});
		const wire::Gid here = loopback_gid(family);
		UdpPath to_unused_port(pair.sender, {.source = here, .destination = here, .destination_port = unused_port});
		wire::SlotWriter unused_slots;
		unused_slots.attach(to_unused_port.direction());
		wire::Slot slot;
		slot.set_bth(wire::Opcode::uc_send_only, {0x777}, {}, 1 << wire::slot_mtu_shift);
		const auto write = [&](wire::SlotWriter& to) {
			const auto room = to.reserve(0, 0);
			*room.slot = slot;
			room.slot->payload_line = room.payload_line;
			to.publish(room.slot, 0);
		};
		EXPECT_FALSE(pair.sender.unreachable(here));
		std::size_t arrived = 0;
		for (const int refused : {0, 1, 2, 20, 1}) {
			for (int i = 0; i < refused; ++i) write(unused_slots);
			EXPECT_TRUE(to_unused_port.transmit());
			write(pair.slots);
			EXPECT_TRUE(pair.path.transmit());
			arrived += pair.receive(1).size();
		}
		EXPECT_EQ(arrived, 5u);
		EXPECT_EQ(pair.sender.counters().packets_sent, 5u + 24);
		EXPECT_EQ(pair.sender.counters().unreachable, 0u);
		const auto report = pair.sender.unreachable(here);
		ASSERT_TRUE(report);
		EXPECT_EQ(report->error, ECONNREFUSED);
		EXPECT_TRUE(pair.sender.take_refusals().empty());
	}
}

TEST(UdpLink, EachInvalidDatagramIsDroppedAndCountedByReason) {
	UdpLink link({.port = 0});
	const int other = socket(AF_INET, SOCK_DGRAM, 0);
	const sockaddr_in to{
		.sin_family = AF_INET, .sin_port = htons(link.port(Family::ipv4)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const auto send_bytes = [&](std::size_t size, unsigned char opcode) {
		std::vector<unsigned char> bytes(size);
		if (size != 0) bytes[0] = opcode;
		ASSERT_EQ(sendto(other, bytes.data(), size, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
			static_cast<ssize_t>(size));
	};
	send_bytes(3, 0);
	send_bytes(5000, 0x04);
	send_bytes(32, 0x82);  // 0x81 is a congestion notification
	send_bytes(32, 0x04);
	std::size_t datagrams = 0;
	while (datagrams < 4) {
		pollfd wait{.fd = link.ready_fd(), .events = POLLIN};
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
	close(other);
}

}  // namespace
}  // namespace verbena::link
