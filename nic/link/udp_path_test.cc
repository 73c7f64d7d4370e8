// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <iterator>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <random>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "nic/link/loopback.h"
#include "nic/wire/bth.h"
#include "nic/wire/mad.h"

namespace verbena::link {
namespace {

constexpr std::uint8_t mtu_1024 = 3 << wire::slot_mtu_shift, mtu_4096 = 5 << wire::slot_mtu_shift;

wire::Slot header(wire::Opcode opcode, std::uint32_t psn, std::uint8_t flags = mtu_1024) {
	wire::Slot slot;
	slot.word = 0;
	slot.set_bth(opcode, {0x42}, {psn}, flags);
	return slot;
}

std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
	std::minstd_rand random(seed);
	std::vector<std::byte> bytes(size);
	for (std::byte& b : bytes) b = static_cast<std::byte>(random());
	return bytes;
}

// The memory of the direction that has pages.
std::size_t resident_bytes(const wire::Direction* direction) {
	constexpr std::size_t page = 4096;
	std::vector<unsigned char> pages((sizeof *direction + page - 1) / page);
	EXPECT_EQ(mincore(const_cast<wire::Direction*>(direction), sizeof *direction, pages.data()), 0);
	return page * static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char each) { return each & 1; }));
}

class UdpPathOver : public testing::TestWithParam<Family> {
protected:
	Loopback loop{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Loopback, UdpPathOver, testing::Values(Family::ipv4, Family::ipv6),
	[](const auto& info) { return info.param == Family::ipv4 ? "ipv4" : "ipv6"; });

TEST_P(UdpPathOver, ASendArrivesAsItWasWrittenWithItsAddresses) {
	const auto payload = pattern(100);
	ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, 7), payload));
	EXPECT_TRUE(loop.path.transmit());
	const auto arrivals = loop.receive(1);
	ASSERT_EQ(arrivals.size(), 1u);
	EXPECT_EQ(arrivals[0].slot.opcode(), wire::Opcode::rc_send_only);
	EXPECT_EQ(arrivals[0].slot.destination(), wire::Qpn{0x42});
	EXPECT_EQ(arrivals[0].slot.psn(), wire::Psn24{7});
	EXPECT_EQ(arrivals[0].payload, payload);
	EXPECT_TRUE(std::ranges::equal(arrivals[0].addresses.source, loopback_gid(GetParam())));
	EXPECT_TRUE(std::ranges::equal(arrivals[0].addresses.destination, loopback_gid(GetParam())));
	EXPECT_EQ(arrivals[0].addresses.hop_limit, 64);
	EXPECT_TRUE(loop.slots.drained());
}

TEST_P(UdpPathOver, ADatagramKeepsTheTrafficClassAndHopLimitOfItsAddressPair) {
	loop.path.direction()->addresses[9] = {.traffic_class = 0x68, .hop_limit = 11};
	auto slot = header(wire::Opcode::ud_send_only, 1);
	slot.deth = {.q_key = 0x11111111, .source = 0x3336 << 8 | 9};
	ASSERT_TRUE(loop.write(slot, pattern(20)));
	EXPECT_TRUE(loop.path.transmit());
	const auto arrivals = loop.receive(1);
	ASSERT_EQ(arrivals.size(), 1u);
	EXPECT_EQ(arrivals[0].addresses.traffic_class, 0x68);
	EXPECT_EQ(arrivals[0].addresses.hop_limit, 11);
	EXPECT_EQ(arrivals[0].slot.source(), wire::Qpn{0x3336});
	EXPECT_EQ(arrivals[0].slot.deth.q_key, 0x11111111u);
}

TEST_P(UdpPathOver, AnAddressedPathSendsEachSlotBetweenTheAddressesOfItsOwnEntry) {
	UdpPath path(loop.sender, {.destination_port = loop.receiver.port(GetParam()), .addressed = true});
	loop.slots.attach(path.direction());
	for (std::uint8_t i = 0; i < 3; ++i) {
		wire::AddressPair& pair = path.direction()->addresses[i];
		pair = {.traffic_class = static_cast<std::uint8_t>(4 * i), .hop_limit = 64};
		std::ranges::copy(loopback_gid(GetParam()), pair.source);
		std::ranges::copy(loopback_gid(GetParam()), pair.destination);
		// 127.0.0.1 to 127.0.0.3
		if (GetParam() == Family::ipv4) pair.source[15] = static_cast<std::uint8_t>(1 + i);
		auto slot = header(wire::Opcode::ud_send_only, i);
		slot.set_bth(wire::Opcode::ud_send_only, wire::general_services_qpn, {i}, mtu_1024);
		slot.deth = {.q_key = 5, .source = 1u << 8 | i};
		ASSERT_TRUE(loop.write(slot, pattern(256, i)));
	}
	EXPECT_TRUE(path.transmit());
	const auto arrivals = loop.receive(3);
	ASSERT_EQ(arrivals.size(), 3u);
	for (std::uint8_t i = 0; i < 3; ++i) {
		EXPECT_EQ(arrivals[i].addresses.source[15], GetParam() == Family::ipv4 ? 1 + i : 1);
		EXPECT_EQ(arrivals[i].addresses.traffic_class, 4 * i);
		EXPECT_EQ(arrivals[i].payload, pattern(256, i));
	}
}

TEST_P(UdpPathOver, ATrimmedPathGivesItsMemoryBackAndCarriesOn) {
	std::uint32_t psn = 0;
	const auto fill = [&] {
		for (int i = 0; i < 31; ++i, ++psn)
			ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, psn, mtu_4096), pattern(4096, psn)));
		ASSERT_TRUE(loop.path.transmit());
		loop.slots.rewind();
		for (const Arrival& arrival : loop.receive(31))
			EXPECT_EQ(arrival.payload, pattern(4096, arrival.slot.psn().value));
	};
	for (int round = 0; round < 20; ++round) {
		fill();
		loop.path.direction()->addresses[3].hop_limit = 9;
		loop.path.trim();
		EXPECT_LE(resident_bytes(loop.path.direction()), UdpPath::trimmed_bytes_max);
		EXPECT_EQ(loop.path.direction()->addresses[3].hop_limit, 9) << "address handles remember these";
	}
}

TEST_P(UdpPathOver, ARunIsCutIntoPacketsAndSentInTwoBatches) {
	const auto payload = pattern(8192);
	auto slot = header(wire::Opcode::rc_write_only, 0xfffffe, mtu_1024 | wire::slot_ack_requested);
	slot.reth = {.address = 0x1000, .rkey = {5}, .dma_length = 8192};
	ASSERT_TRUE(loop.write(slot, payload));
	EXPECT_TRUE(loop.path.transmit());
	const auto arrivals = loop.receive(8);
	ASSERT_EQ(arrivals.size(), 8u);
	std::vector<std::byte> together;
	for (std::uint32_t i = 0; i < 8; ++i) {
		EXPECT_EQ(arrivals[i].slot.psn(), wire::Psn24{(0xfffffe + i) & 0xffffff});
		EXPECT_EQ(arrivals[i].slot.ack_requested(), i == 7);
		together.insert(together.end(), arrivals[i].payload.begin(), arrivals[i].payload.end());
	}
	EXPECT_EQ(arrivals[0].slot.opcode(), wire::Opcode::rc_write_first);
	EXPECT_EQ(arrivals[0].slot.reth.dma_length, 8192u);
	EXPECT_EQ(arrivals[7].slot.opcode(), wire::Opcode::rc_write_last);
	EXPECT_EQ(together, payload);
	// A batch has packets of equal length and one shorter: FIRST, longer by its RETH, and one
	// MIDDLE.
	EXPECT_EQ(loop.sender.counters().send_calls, 2u);
}

TEST_P(UdpPathOver, SixtyFourEqualPacketsAreOneSystemCall) {
	for (std::uint32_t i = 0; i < 64; ++i)
		ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, i), pattern(32, i + 1)));
	EXPECT_TRUE(loop.path.transmit());
	EXPECT_EQ(loop.sender.counters().send_calls, 1u);
	EXPECT_EQ(loop.sender.counters().packets_sent, 64u);
	const auto arrivals = loop.receive(64);
	ASSERT_EQ(arrivals.size(), 64u);
	for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(arrivals[i].payload, pattern(32, i + 1));
	EXPECT_EQ(loop.receiver.counters().bytes_received, loop.sender.counters().bytes_sent);
}

TEST_P(UdpPathOver, ABatchStopsBeforeSixtyFiveThousandBytes) {
	for (std::uint32_t i = 0; i < 16; ++i)
		ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, i, mtu_4096), pattern(4096)));
	EXPECT_TRUE(loop.path.transmit());
	EXPECT_EQ(loop.sender.counters().send_calls, 2u);
	EXPECT_EQ(loop.receive(16).size(), 16u);
}

TEST_P(UdpPathOver, MixedTrafficArrivesWholeAndInOrder) {
	std::minstd_rand random(5);
	std::uint32_t psn = 0;
	std::vector<std::vector<std::byte>> sent;
	for (int round = 0; round < 200; ++round) {
		std::size_t packets = 0;
		for (unsigned i = random() % 20 + 1; i > 0; --i) {
			const auto payload = pattern(random() % 3 ? random() % 100 : random() % 8193, psn + 1);
			const auto slot = header(wire::Opcode::rc_send_only, psn, random() % 2 ? mtu_1024 : mtu_4096);
			if (!loop.write(slot, payload)) break;
			wire::Slot sized = slot;
			sized.length = static_cast<std::uint32_t>(payload.size());
			packets += wire::packet_count(sized);
			psn += wire::packet_count(sized);
			sent.push_back(payload);
		}
		ASSERT_TRUE(loop.path.transmit());
		const auto arrivals = loop.receive(packets);
		ASSERT_EQ(arrivals.size(), packets);
		std::vector<std::byte> message;
		for (const Arrival& a : arrivals) {
			if (wire::facts(a.slot.opcode()).first) message.clear();
			message.insert(message.end(), a.payload.begin(), a.payload.end());
			if (!wire::facts(a.slot.opcode()).last) continue;
			ASSERT_EQ(message, sent.front());
			sent.erase(sent.begin());
		}
	}
	EXPECT_TRUE(sent.empty());
	EXPECT_EQ(loop.sender.counters().unreachable, 0u);
}

TEST(UdpPath, WithoutSegmentationEachPacketIsACallAndAllArrive) {
	Loopback loop(Family::ipv4, {.port = 0, .segmentation = false});
	for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, i), pattern(2048)));
	EXPECT_TRUE(loop.path.transmit());
	EXPECT_EQ(loop.sender.counters().send_calls, 10u);
	EXPECT_EQ(loop.receive(10).size(), 10u);
}

TEST(UdpPath, DatagramsLostInAFullReceiveBufferAreCounted) {
	Loopback loop(Family::ipv4, {.port = 0, .buffer_bytes = 32 * 1024});
	for (int i = 0; i < 64; ++i) {
		ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, 0, mtu_4096), pattern(4096)));
		ASSERT_TRUE(loop.path.transmit());
	}
	const std::size_t first = loop.receive(1).size();
	EXPECT_LT(first, 64u);
	// The kernel reports losses with the next datagram that it accepts.
	ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, 0), pattern(8)));
	ASSERT_TRUE(loop.path.transmit());
	const auto rest = loop.receive(1);
	EXPECT_EQ(first + rest.size() + loop.receiver.counters().overflowed, 65u);
	EXPECT_TRUE(rest[0].after_overflow);
	ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, 0), pattern(8)));
	ASSERT_TRUE(loop.path.transmit());
	EXPECT_FALSE(loop.receive(1)[0].after_overflow) << "a loss is reported once";
}

TEST(UdpLink, TheSizeOfTheReceiveBufferIsTheKernels) {
	const UdpLink link({.port = 0, .buffer_bytes = 64 * 1024});
	EXPECT_EQ(link.receive_buffer_bytes(Family::ipv4), 2u * 64 * 1024) << "the kernel doubles it (socket(7))";
}

// Runs `body` in a network namespace of its own, whose loopback interface has this MTU.
template <class Body> void in_namespace_with_mtu(int mtu, Body body) {
	std::string obstacle;
	std::thread([&] {
		if (unshare(CLONE_NEWNET) != 0) {
			obstacle = std::string("no network namespace: ") + std::strerror(errno);
			return;
		}
		const int fd = socket(AF_INET, SOCK_DGRAM, 0);
		ifreq request{};
		std::strcpy(request.ifr_name, "lo");
		request.ifr_mtu = mtu;
		ASSERT_EQ(ioctl(fd, SIOCSIFMTU, &request), 0);
		request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
		ASSERT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
		close(fd);
		body();
	}).join();
	if (!obstacle.empty()) GTEST_SKIP() << obstacle;
}

TEST(UdpPath, PacketsAboveTheMtuOfTheRouteAreCountedAndTheOthersArrive) {
	in_namespace_with_mtu(1500, [] {
		Loopback loop(Family::ipv4);
		for (std::uint32_t i = 0; i < 12; ++i)
			ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, i, mtu_4096), pattern(i % 3 == 1 ? 4096 : 1000)));
		EXPECT_TRUE(loop.path.transmit());
		EXPECT_EQ(loop.sender.counters().too_big, 4u);
		EXPECT_EQ(loop.receive(8).size(), 8u);
		EXPECT_TRUE(loop.slots.drained());
		// Later packets are batched again.
		for (std::uint32_t i = 0; i < 30; ++i)
			ASSERT_TRUE(loop.write(header(wire::Opcode::rc_send_only, i), pattern(1000)));
		const std::uint64_t calls = loop.sender.counters().send_calls;
		EXPECT_TRUE(loop.path.transmit());
		EXPECT_EQ(loop.sender.counters().send_calls - calls, 1u);
		EXPECT_EQ(loop.receive(30).size(), 30u);
	});
}

TEST(UdpPath, AnUnreachableDestinationIsCountedAndDoesNotStopTheRing) {
	in_namespace_with_mtu(1500, [] {
		UdpLink link({.port = 0});
		const wire::Gid nowhere{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
		UdpPath path(link, {.source = loopback_gid(Family::ipv4), .destination = nowhere});
		wire::SlotWriter slots;
		slots.attach(path.direction());
		const auto room = slots.reserve(0, 0);
		*room.slot = header(wire::Opcode::rc_send_only, 0);
		room.slot->payload_line = room.payload_line;
		slots.publish(room.slot, 0);
		EXPECT_TRUE(path.transmit());
		EXPECT_EQ(link.counters().unreachable, 1u);
		EXPECT_TRUE(slots.drained());
	});
}

// A neighbour that does not answer ARP yet: the kernel queues packets to it, and they fill the
// sender's socket buffer.
struct SilentNeighbour {
	static constexpr wire::Gid us{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1},
		it{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};

	// Sets `obstacle` if this machine allows no tap device.
	SilentNeighbour()
		: tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)), control(socket(AF_INET, SOCK_DGRAM, 0)) {
		ifreq request = named();
		request.ifr_flags = IFF_TAP | IFF_NO_PI;
		if (tap < 0 || ioctl(tap, TUNSETIFF, &request) != 0) {
			obstacle = std::string("no tap device: ") + std::strerror(errno);
			return;
		}
		request = named();
		const sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(0x0a090001)}},
			mask{.sin_family = AF_INET, .sin_addr = {htonl(0xffffff00)}};
		std::memcpy(&request.ifr_addr, &address, sizeof address);
		EXPECT_EQ(ioctl(control, SIOCSIFADDR, &request), 0);
		std::memcpy(&request.ifr_netmask, &mask, sizeof mask);
		EXPECT_EQ(ioctl(control, SIOCSIFNETMASK, &request), 0);
		request.ifr_flags = IFF_UP | IFF_RUNNING;
		EXPECT_EQ(ioctl(control, SIOCSIFFLAGS, &request), 0);
	}
	~SilentNeighbour() {
		close(tap);
		close(control);
	}

	// Adds the ARP entry, so that the kernel sends the queued packets.
	void answer() {
		arpreq entry{.arp_flags = ATF_PERM | ATF_COM};
		const sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(0x0a090002)}};
		std::memcpy(&entry.arp_pa, &address, sizeof address);
		entry.arp_ha.sa_data[0] = 2;
		std::strcpy(entry.arp_dev, "tap0");
		EXPECT_EQ(ioctl(control, SIOCSARP, &entry), 0);
	}

	// The PSNs of the packets that have arrived since the last call.
	std::vector<std::uint32_t> psns() {
		std::vector<std::uint32_t> result;
		std::byte frame[2048];
		constexpr std::size_t before_bth = 14 + 20 + 8;
		for (ssize_t size; (size = read(tap, frame, sizeof frame)) > 0;)
			if (static_cast<std::size_t>(size) > before_bth + wire::Bth::size && frame[12] == std::byte{8} &&
				frame[23] == std::byte{17})
				result.push_back(wire::BthView::over(std::span(frame).subspan(before_bth))->read().psn.value);
		return result;
	}

	std::string obstacle;

private:
	static ifreq named() {
		ifreq request{};
		std::strcpy(request.ifr_name, "tap0");
		return request;
	}
	int tap, control;
};

TEST(UdpPath, PacketsWithoutRoomInTheSocketStayInTheRingAndAreSentOnce) {
	std::string obstacle;
	in_namespace_with_mtu(65536, [&] {
		SilentNeighbour neighbour;
		obstacle = neighbour.obstacle;
		if (!obstacle.empty()) return;
		UdpLink link({.port = 0, .buffer_bytes = 16 * 1024});
		UdpPath path(link, {.source = SilentNeighbour::us, .destination = SilentNeighbour::it});
		wire::SlotWriter slots;
		slots.attach(path.direction());
		std::vector<std::uint32_t> expected;
		for (std::uint32_t i = 0; i < 30; ++i) {
			const auto room = slots.reserve(8192, 0);
			ASSERT_NE(room.slot, nullptr);
			*room.slot = header(wire::Opcode::rc_send_only, i * 8);
			room.slot->payload_line = room.payload_line;
			slots.publish(room.slot, 8192);
			for (std::uint32_t k = 0; k < 8; ++k) expected.push_back(i * 8 + k);
		}
		EXPECT_FALSE(path.transmit());
		EXPECT_FALSE(slots.drained());
		EXPECT_GT(link.counters().send_blocked, 0u);

		neighbour.answer();
		std::vector<std::uint32_t> arrived;
		for (int i = 0; i < 1000 && arrived.size() < expected.size(); ++i) {
			path.transmit();
			std::ranges::copy(neighbour.psns(), std::back_inserter(arrived));
		}
		EXPECT_EQ(arrived, expected);
		EXPECT_TRUE(slots.drained());
		EXPECT_EQ(link.counters().unreachable + link.counters().too_big, 0u);
	});
	if (!obstacle.empty()) GTEST_SKIP() << obstacle;
}

}  // namespace
}  // namespace verbena::link
