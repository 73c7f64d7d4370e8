#include "nic/adversary/adversary.h"

#include <gtest/gtest.h>

namespace verbena::adversary {
namespace {

class AdversaryTest : public testing::Test {
protected:
	Adversary make(const char* text) {
		return {*parse(text), adapter, nullptr, [] {}, [this](const Decision& made) { decisions.push_back(made); }};
	}

	adapter::ChannelAdapter adapter{1};
	std::vector<Decision> decisions;
};

TEST_F(AdversaryTest, AMessageOfAConnectionWaitsForABoundedTime) {
	Adversary adversary = make("3:tso");
	for (int i = 0; i < 200; ++i) {
		if (!adversary.holds_message()) continue;
		EXPECT_TRUE(adversary.holds_message());
		const Nanoseconds due = adversary.due();
		EXPECT_LE(due - adapter.context().now, delay_max);
		adapter.context().now = due;
		adversary.advance(due);
		EXPECT_FALSE(adversary.holds_message());
		EXPECT_EQ(adversary.due(), never);
	}
	EXPECT_GT(decisions.size(), 20u);
	for (const Decision& decision : decisions) EXPECT_EQ(decision.kind, Kind::connections);
}

TEST_F(AdversaryTest, NoMessageOfAConnectionWaitsAtTheEndOfTheProcess) {
	Adversary adversary = make("3:tso");
	while (!adversary.holds_message()) {}
	adversary.settle();
	for (int i = 0; i < 200; ++i) EXPECT_FALSE(adversary.holds_message());
}

TEST_F(AdversaryTest, WithoutTheKindNoMessageOfAConnectionWaits) {
	Adversary adversary = make("3:tso:only=placement+datagrams");
	for (int i = 0; i < 200; ++i) EXPECT_FALSE(adversary.holds_message());
}

}  // namespace
}  // namespace verbena::adversary
