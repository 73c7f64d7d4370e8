// SPDX-License-Identifier: Apache-2.0
#include "tools/profile_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

using testing::HasSubstr;

TEST(ProfileOptions, AKnownNameHasNoFault) {
	EXPECT_FALSE(fault_of_profile("e810"));
	EXPECT_FALSE(fault_of_profile("floor"));
}

TEST(ProfileOptions, AWrongNameGetsTheNearestOneAndTheList) {
	EXPECT_THAT(fault_of_profile("e801").value(), HasSubstr("no profile 'e801' (did you mean 'e810'?); the profiles"));
	EXPECT_THAT(fault_of_profile("connectx").value(), HasSubstr("cx6, cx7, e810"));
}

TEST(ProfileOptions, TheListHasTheLimitsTheDevicesAndTheSources) {
	const std::string list = list_of_profiles();
	EXPECT_THAT(list, HasSubstr("max_inline_data"));
	EXPECT_THAT(list, HasSubstr("AWS Elastic Fabric Adapter (efa): rdma-core providers/efa"));
}

}  // namespace
}  // namespace verbena::tools
