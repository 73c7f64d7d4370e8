// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/ack_ring.h"

#include <gtest/gtest.h>
#include <memory>

namespace verbena::wire {
namespace {

class AckRing : public testing::Test {
protected:
	AckRing() {
		writer.attach(direction.get());
		reader.attach(direction.get());
	}
	std::unique_ptr<Direction> direction = std::make_unique<Direction>();
	AckWriter writer;
	AckReader reader;
};

TEST_F(AckRing, ARecordKeepsItsThreeFields) {
	AckRecord record;
	EXPECT_FALSE(reader.read(record));
	ASSERT_TRUE(writer.write(syndrome::rnr_nak | 5, {0xabcdef}, {0x123456}));
	ASSERT_TRUE(reader.read(record));
	EXPECT_EQ(record.syndrome(), syndrome::rnr_nak | 5);
	EXPECT_EQ(record.psn(), Psn24{0xabcdef});
	EXPECT_EQ(record.destination(), Qpn{0x123456});
	EXPECT_FALSE(reader.read(record));
}

TEST_F(AckRing, RefusesWhenFullAndKeepsOrderThroughManyRounds) {
	std::uint32_t sent = 0, received = 0;
	for (int round = 0; round < 600; ++round) {
		while (writer.write(syndrome::ack, {sent & 0xffffff}, {1})) ++sent;
		ASSERT_LE(sent - received, Direction::ack_count);
		for (AckRecord record; reader.read(record); ++received) ASSERT_EQ(record.psn(), Psn24{received & 0xffffff});
	}
	EXPECT_EQ(sent, received);
	EXPECT_GT(sent, 255u * Direction::ack_count);
}

}  // namespace
}  // namespace verbena::wire
