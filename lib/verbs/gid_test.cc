// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/gid.h"

#include <gtest/gtest.h>

namespace verbena::lib {
namespace {

constexpr const char* long_form = "fd93:16d3:59b6:012e:7ec2:55ff:febd:d78e";

TEST(Gid, IsReadWithAndWithoutColons) {
	const auto with = parse_gid(long_form);
	const auto without = parse_gid("fd9316d359b6012e7ec255fffebdd78e");
	ASSERT_TRUE(with && without);
	EXPECT_EQ(format_gid(*with), long_form);
	EXPECT_EQ(format_gid(*without), long_form);
}

TEST(Gid, TheShortFormsOfIpv6AreReadAndPrintedInFull) {
	EXPECT_EQ(format_gid(*parse_gid("::ffff:10.0.0.1")), "0000:0000:0000:0000:0000:ffff:0a00:0001");
	EXPECT_EQ(format_gid(*parse_gid("fe80::1")), "fe80:0000:0000:0000:0000:0000:0000:0001");
}

TEST(Gid, WhatIsNotAGidIsRefusedByName) {
	for (const char* text : {"", "fd93", "fd9316d359b6012e7ec255fffebdd78", "fd9316d359b6012e7ec255fffebdd78eX",
			 "10.0.0.1", "gd93:16d3:59b6:012e:7ec2:55ff:febd:d78e", "fd93:16d3:59b6:012e:7ec2:55ff:febd:d78e:1"}) {
		const auto gid = parse_gid(text);
		ASSERT_FALSE(gid) << text;
		EXPECT_NE(gid.error().find(text), std::string::npos);
	}
}

TEST(Gid, KindsAreToldApart) {
	EXPECT_EQ(kind_of(*parse_gid("::ffff:10.0.0.1")), GidKind::ipv4);
	EXPECT_EQ(kind_of(*parse_gid("::ffff:127.0.0.1")), GidKind::loopback);
	EXPECT_EQ(kind_of(*parse_gid("::1")), GidKind::loopback);
	EXPECT_EQ(kind_of(*parse_gid("fe80::1")), GidKind::link_local);
	EXPECT_EQ(kind_of(*parse_gid(long_form)), GidKind::ipv6);
	EXPECT_EQ(kind_of(*parse_gid("::")), GidKind::empty);
	EXPECT_EQ(kind_of(*parse_gid("fe80::")), GidKind::empty);
}

}  // namespace
}  // namespace verbena::lib
