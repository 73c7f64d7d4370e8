// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/adversary.h"

#include <gtest/gtest.h>

#include <array>

#include "nic/adapter/adapter_fixture.h"
#include "nic/memory/guarded_copy.h"

namespace verbena::adversary {
namespace {

class AdversaryTest : public adapter::testing_tools::AdapterTest {
protected:
	Adversary make(const char* text) {
		return {*parse(text), adapter, nullptr, [] {}, [this](const Decision& made) { decisions.push_back(made); }};
	}

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

// Regression: a program's inline data lay where the payload of the last packet had been, on the
// stack of the thread, and were held back as if they had arrived: a message had other bytes.
TEST_F(AdversaryTest, TheMemoryOfAPayloadIsTheProgramsAgainOnceItsPacketWasHandled) {
	Adversary adversary = make("3:tso:only=placement");
	adapter.context().observer = &adversary;
	for (Nanoseconds now = 0; now < 20; ++now) {
		transport::QueuePair& qp = connected();
		std::array<std::byte, 256> payload{}, copy{};
		wire::Slot slot = request(qp, 10);
		slot.length = payload.size();
		adapter.begin_pass(now);
		adapter.handle_slot(outlet, slot, payload.data(), {});
		adapter.finish_pass();
		payload.fill(std::byte{7});
		ASSERT_TRUE(memory::guarded_copy(copy.data(), payload.data(), payload.size()));
		EXPECT_EQ(copy, payload);
	}
	EXPECT_TRUE(decisions.empty());
	adapter.context().observer = nullptr;
}

}  // namespace
}  // namespace verbena::adversary
