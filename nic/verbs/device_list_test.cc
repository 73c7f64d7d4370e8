// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/device_list.h"

#include <array>

#include <gtest/gtest.h>

namespace verbena::verbs {
namespace {

struct DeviceList : testing::Test {
	ibv_device first{}, second{}, mine{}, mine_too{};
	std::array<ibv_device*, 3> real{&first, &second, nullptr};
	std::array<ibv_device*, 2> ours{&mine, &mine_too};
};

TEST_F(DeviceList, HasRealDevicesFirstThenOursThenNull) {
	ibv_device** list = make_device_list(real.data(), ours);
	EXPECT_EQ(list[0], &first);
	EXPECT_EQ(list[1], &second);
	EXPECT_EQ(list[2], &mine);
	EXPECT_EQ(list[3], &mine_too);
	EXPECT_EQ(list[4], nullptr);
	EXPECT_EQ(device_count(list), 4);
	release_device_list(list);
}

TEST_F(DeviceList, GivesTheRealListBackWhenItIsReleased) {
	EXPECT_EQ(release_device_list(make_device_list(real.data(), ours)), real.data());
}

TEST_F(DeviceList, IsOursAloneWhenTheRealLibraryHasNone) {
	ibv_device** list = make_device_list(nullptr, ours);
	EXPECT_EQ(list[0], &mine);
	EXPECT_EQ(device_count(list), 2);
	EXPECT_EQ(release_device_list(list), nullptr);
}

TEST_F(DeviceList, IsEmptyAndNotNullWithoutAnyDevice) {
	ibv_device** list = make_device_list(nullptr, {});
	ASSERT_NE(list, nullptr);
	EXPECT_EQ(device_count(list), 0);
	EXPECT_EQ(release_device_list(list), nullptr);
}

TEST_F(DeviceList, EmptyRealListIsStillGivenBack) {
	std::array<ibv_device*, 1> none{nullptr};
	ibv_device** list = make_device_list(none.data(), ours);
	EXPECT_EQ(device_count(list), 2);
	EXPECT_EQ(release_device_list(list), none.data());
}

}  // namespace
}  // namespace verbena::verbs
