#include "tools/fault_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(FaultOptions, SeveralOptionsAreOneText) {
	EXPECT_EQ(fault_text({"loss=1%,seed=7", "peer=10.0.0.2,loss=50%"}), "loss=1%,seed=7;peer=10.0.0.2,loss=50%");
}

TEST(FaultOptions, WithoutASeedThereIsARandomOne) {
	EXPECT_THAT(*fault_text({"loss=1%"}), StartsWith("loss=1%;seed="));
	EXPECT_NE(fault_text({"loss=1%"}), fault_text({"loss=1%"}));
}

TEST(FaultOptions, AWrongWordIsNamedWithTheNearestAndTheList) {
	const std::string message = fault_text({"los=1%"}).error();
	EXPECT_THAT(message, HasSubstr("'los' is no word of --faults (did you mean 'loss'?); the words are loss, "));
	EXPECT_THAT(message, HasSubstr("qp-error"));
	EXPECT_THAT(fault_text({"loss=2"}).error(), HasSubstr("'loss=2' is no probability"));
}

}  // namespace
}  // namespace verbena::tools
