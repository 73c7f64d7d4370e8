// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/nldev.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "nic/presence/kernel_nldev.h"

namespace verbena::presence {
namespace {

// Bytes as they are on the socket; the machines that we run on are little-endian.
Datagram bytes(std::initializer_list<unsigned char> values) {
	Datagram datagram(values.size());
	std::memcpy(datagram.data(), values.begin(), values.size());
	return datagram;
}

std::string text(const std::vector<Datagram>& datagrams) {
	std::string all;
	for (const Datagram& datagram : datagrams)
		all.append(reinterpret_cast<const char*>(datagram.data()), datagram.size());
	return all;
}

std::vector<DeviceFacts> devices() {
	DeviceFacts device{.name = "vb_lo", .number = 1, .interface = "lo", .interface_index = 1, .firmware = "9"};
	device.node_guid = 0x0102030405060708;
	device.port.state = 4;
	device.port.phys_state = 5;
	return {device};
}

constexpr std::uint32_t port = 0x11223344;

// A request of `command` with sequence number 7, and the attribute DEV_INDEX if `index` is not 0.
Datagram request(unsigned char command, unsigned char flags_high, unsigned char index) {
	Datagram datagram = bytes({16, 0, 0, 0, command, 0x14, 1, flags_high, 7, 0, 0, 0, 0, 0, 0, 0});
	if (index == 0) return datagram;
	const Datagram attribute = bytes({8, 0, 1, 0, index, 0, 0, 0});
	datagram.insert(datagram.end(), attribute.begin(), attribute.end());
	datagram[0] = std::byte{24};
	return datagram;
}

constexpr unsigned char dump = 3;  // NLM_F_DUMP, in the high byte of the flags

TEST(Nldev, PortIsAnsweredWithItsStateAndInterface) {
	Datagram ask = request(5, 0, 1);
	const Datagram attribute = bytes({8, 0, 3, 0, 1, 0, 0, 0});
	ask.insert(ask.end(), attribute.begin(), attribute.end());
	ask[0] = std::byte{32};
	const auto answers = answer(ask, devices(), port);
	ASSERT_EQ(answers.size(), 1u);
	EXPECT_EQ(answers[0],
		bytes({
			76, 0, 0, 0, 5, 0x14, 0, 0, 7, 0, 0, 0, 0x44, 0x33, 0x22, 0x11,  // header
			8, 0, 1, 0, 1, 0, 0, 0,  // DEV_INDEX
			10, 0, 2, 0, 'v', 'b', '_', 'l', 'o', 0, 0, 0,  // DEV_NAME
			8, 0, 3, 0, 1, 0, 0, 0,  // PORT_INDEX
			5, 0, 12, 0, 4, 0, 0, 0,  // PORT_STATE
			5, 0, 13, 0, 5, 0, 0, 0,  // PORT_PHYS_STATE
			8, 0, 50, 0, 1, 0, 0, 0,  // NDEV_INDEX
			7, 0, 51, 0, 'l', 'o', 0, 0,  // NDEV_NAME
		}));
}

TEST(Nldev, ListOfDevicesEndsWithDone) {
	const auto answers = answer(request(1, dump, 0), devices(), port);
	ASSERT_EQ(answers.size(), 1u);
	const Datagram end = bytes({20, 0, 0, 0, 3, 0, 2, 0, 7, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0});
	EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), answers[0].rbegin()));
	EXPECT_NE(text(answers).find(std::string("\x0c\0\6\0\x08\7\6\5\4\3\2\1", 12)), std::string::npos) << "NODE_GUID";
	EXPECT_NE(text(answers).find(std::string("roce\0", 5)), std::string::npos);
}

TEST(Nldev, LongListIsSplitIntoDatagramsThatFitABuffer) {
	std::vector<DeviceFacts> many;
	for (std::uint32_t i = 1; i <= 100; ++i) {
		many.push_back(devices()[0]);
		many.back().number = i;
	}
	const auto answers = answer(request(1, dump, 0), many, port);
	EXPECT_GT(answers.size(), 1u);
	for (const Datagram& datagram : answers) EXPECT_LE(datagram.size(), datagram_size_max);
}

TEST(Nldev, UnknownDeviceIsEinval) {
	const auto answers = answer(request(1, 0, 9), devices(), port);
	ASSERT_EQ(answers.size(), 1u);
	EXPECT_EQ(answers[0],
		bytes({36, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0x44, 0x33, 0x22, 0x11,  // NLMSG_ERROR
			0xea, 0xff, 0xff, 0xff,  // -EINVAL
			24, 0, 0, 0, 1, 0x14, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0}));  // the request's header
}

TEST(Nldev, CommandsThatChangeSomethingAreNotSupported) {
	for (const unsigned char command : {2, 3, 4, 7, 16, 18}) {
		const auto answers = answer(request(command, 0, 1), devices(), port);
		ASSERT_EQ(answers.size(), 1u);
		EXPECT_EQ(std::to_integer<int>(answers[0][16]), 0xa1) << "-EOPNOTSUPP";
		EXPECT_EQ(std::to_integer<int>(answers[0][4]), 2) << "NLMSG_ERROR";
	}
}

TEST(Nldev, CharacterDeviceIsNamedWithItsNumber) {
	Datagram ask = request(15, 0, 1);
	const Datagram attribute = bytes({11, 0, 69, 0, 'u', 'v', 'e', 'r', 'b', 's', 0, 0});
	ask.insert(ask.end(), attribute.begin(), attribute.end());
	ask[0] = std::byte{36};
	const std::string got = text(answer(ask, devices(), port));
	EXPECT_NE(got.find(std::string("\x0c\0\x48\0\xc1\xe7\0\0\0\0\0\0", 12)), std::string::npos) << "231:193";
	EXPECT_NE(got.find("uverbs1"), std::string::npos);
}

TEST(Nldev, MalformedRequestsAreIgnored) {
	for (const unsigned char length : {0, 15, 17, 255}) {
		Datagram ask = request(1, 0, 0);
		ask[0] = std::byte{length};
		EXPECT_TRUE(answer(ask, devices(), port).empty());
	}
	Datagram attribute = request(1, 0, 1);
	attribute[16] = std::byte{200};  // longer than the message
	EXPECT_EQ(answer(attribute, devices(), port).size(), 1u);
	EXPECT_TRUE(answer(bytes({1, 2, 3}), devices(), port).empty());
}

TEST(KernelNldev, ListsAreJoinedBeforeOneEnd) {
	const auto ours = answer(request(1, dump, 0), devices(), port);
	std::vector<DeviceFacts> theirs = devices();
	theirs[0].name = "rxe0";
	const auto both = merge(ours, answer(request(1, dump, 0), theirs, port));
	const std::string got = text(both);
	EXPECT_LT(got.find("rxe0"), got.find("vb_lo"));
	EXPECT_NE(got.find("vb_lo"), std::string::npos);
	const std::string end("\x14\0\0\0\3\0\2\0", 8);
	EXPECT_EQ(got.find(end), got.rfind(end));
}

TEST(KernelNldev, DeviceThatOnlyTheKernelHasIsTheKernels) {
	const auto unknown = answer(request(1, 0, 9), devices(), port);
	std::vector<DeviceFacts> theirs = devices();
	theirs[0].number = 9;
	const auto known = answer(request(1, 0, 9), theirs, port);
	EXPECT_EQ(merge(unknown, known), known);
	EXPECT_EQ(merge(known, unknown), known);
	EXPECT_EQ(merge(known, {}), known);
}

}  // namespace
}  // namespace verbena::presence
