// SPDX-License-Identifier: Apache-2.0
#include "nic/profile/profile.h"

#include <gtest/gtest.h>

#include <set>

#include "nic/profile/cells.h"
#include "nic/profile/limits.h"

namespace verbena::profile {
namespace {

const Profile& named(std::string_view name) { return *find(name); }

TEST(Profile, EachNameFindsItsProfileAndNoOtherNameFindsOne) {
	std::set<std::string_view> names;
	for (const Profile& each : all()) {
		EXPECT_EQ(find(each.name), &each);
		EXPECT_TRUE(names.insert(each.name).second) << each.name;
		EXPECT_FALSE(each.sources.empty()) << each.name;
	}
	for (const std::string_view wrong : {"", "e8100", "E810", "list"}) EXPECT_EQ(find(wrong), nullptr) << wrong;
}

TEST(Profile, TheFiguresOfE810AreThoseOfItsDriver) {
	EXPECT_EQ(named("e810").max_inline_data, 101u);
	EXPECT_EQ(named("e810").max_send_sge, 13u);
	EXPECT_EQ(named("e810").types, rc | ud);
	EXPECT_EQ(named("e810").atomics, Atomics::none);
}

TEST(Profile, TheFloorIsTheSmallestFigureOfTheRoceDevices) {
	const Profile& floor = named("floor");
	EXPECT_EQ(floor.max_inline_data, named("bnxt").max_inline_data);
	EXPECT_EQ(floor.max_send_sge, named("qedr").max_send_sge);
	EXPECT_EQ(floor.max_qp_wr, named("e810").max_qp_wr);
	EXPECT_EQ(floor.max_cqe, named("rxe").max_cqe);
	EXPECT_EQ(floor.max_qp_rd_atom, 16u);
	EXPECT_EQ(floor.types, rc | ud);
	EXPECT_EQ(floor.atomics, Atomics::none);
	EXPECT_EQ(floor.srq, Answer::no);
	EXPECT_EQ(floor.windows, Answer::no);
	for (const std::string_view name : {"cx6", "cx7", "e810", "bnxt", "rxe", "qedr", "verbena"}) {
		const Limits device = limits_of(named(name)), least = limits_of(floor);
		EXPECT_LE(least.max_inline_data, device.max_inline_data) << name;
		EXPECT_LE(least.max_recv_sge, device.max_recv_sge) << name;
		EXPECT_LE(least.max_sge_rd, device.max_sge_rd) << name;
		EXPECT_EQ(least.types & ~device.types, 0) << name;
		EXPECT_LE(least.srq, device.srq) << name;
		EXPECT_LE(least.create_qp_ex, device.create_qp_ex) << name;
	}
}

TEST(ProfileLimits, AnUnknownFigureIsTheOneOfTheNic) {
	EXPECT_EQ(named("efa").max_qp_wr, unknown);
	EXPECT_EQ(limits_of(named("efa")).max_qp_wr, own().max_qp_wr);
	EXPECT_EQ(named("cx6").max_inline_data, unknown);
	EXPECT_EQ(limits_of(named("cx6")).max_inline_data, own().max_inline_data);
	EXPECT_TRUE(limits_of(named("qedr")).types & ud);
}

TEST(ProfileLimits, NoFigureIsAboveWhatTheNicCanDo) {
	for (const Profile& each : all()) {
		const Limits limits = limits_of(each);
		EXPECT_LE(limits.max_inline_data, inline_bytes_most) << each.name;
		EXPECT_LE(limits.max_send_sge, segments_most) << each.name;
		EXPECT_LE(limits.max_cqe, completions_most) << each.name;
		EXPECT_LE(limits.max_qp_init_rd_atom, 255u) << each.name;
		EXPECT_LE(limits.max_msg_sz, message_most) << each.name;
		EXPECT_NE(limits.atomics, Atomics::unknown) << each.name;
	}
	EXPECT_EQ(limits_of(named("bnxt")).max_cqe, completions_most);
}

TEST(ProfileLimits, OnlyTheNicsOwnProfileHasNoName) {
	EXPECT_EQ(limits_of(own()).profile, "");
	EXPECT_EQ(limits_of(named("verbena")).profile, "");
	EXPECT_EQ(limits_of(named("siw")).profile, "siw");
}

TEST(ProfileCells, EachCellHasAText) {
	for (const Row& row : rows())
		for (const Profile& each : all()) EXPECT_FALSE(row.cell(each).empty()) << row.name << " of " << each.name;
}

TEST(ProfileCells, UnknownFiguresAndTypesHaveAQuestionMark) {
	const auto cell = [](std::string_view row, std::string_view profile) {
		for (const Row& each : rows())
			if (each.name == row) return each.cell(named(profile));
		return std::string("no such row");
	};
	EXPECT_EQ(cell("max_inline_data", "cx6"), "?");
	EXPECT_EQ(cell("types of queue pairs", "qedr"), "RC UC? UD?");
	EXPECT_EQ(cell("max_msg_sz", "efa"), "MTU");
	EXPECT_EQ(cell("atomics", "rxe"), "HCA");
}

}  // namespace
}  // namespace verbena::profile
