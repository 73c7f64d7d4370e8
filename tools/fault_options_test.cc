// SPDX-License-Identifier: Apache-2.0
#include "tools/fault_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

using testing::HasSubstr;

TEST(FaultOptions, SeveralOptionsAreOneText) {
	const FaultText made = *fault_text({"loss=1%,seed=7", "peer=10.0.0.2,loss=50%"});
	EXPECT_EQ(made.text, "loss=1%,seed=7;peer=10.0.0.2,loss=50%");
	EXPECT_FALSE(made.drawn);
}

TEST(FaultOptions, WithoutASeedThereIsARandomOne) {
	const FaultText made = *fault_text({"loss=1%"});
	EXPECT_EQ(made.text, "loss=1%;seed=" + std::to_string(made.drawn.value()));
	EXPECT_NE(fault_text({"loss=1%"})->drawn, made.drawn);
}

TEST(FaultOptions, AWrongWordIsNamedWithTheNearestAndTheList) {
	const std::string message = fault_text({"los=1%"}).error();
	EXPECT_THAT(message, HasSubstr("'los' is no word of --faults (did you mean 'loss'?); the words are loss, "));
	EXPECT_THAT(message, HasSubstr("qp-error"));
	EXPECT_THAT(fault_text({"loss=2"}).error(), HasSubstr("'loss=2' is no probability"));
}

}  // namespace
}  // namespace verbena::tools
