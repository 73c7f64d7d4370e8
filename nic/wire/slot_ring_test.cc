// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/slot_ring.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace verbena::wire {
namespace {

class SlotRing : public testing::Test {
protected:
	SlotRing() {
		writer.attach(direction.get());
		reader.attach(direction.get());
	}

	bool write(std::uint32_t length, unsigned char value, std::uint32_t extension = 0) {
		const auto room = writer.reserve(length, extension);
		if (!room.slot) return false;
		room.slot->payload_line = room.payload_line;
		room.slot->set_bth(Opcode::rc_send_only, {1}, {value}, 0);
		std::memset(room.payload, value, length);
		writer.publish(room.slot, length, {7});
		return true;
	}
	// Reads one slot and checks that each payload byte is the low byte of its PSN.
	bool read() {
		Slot slot;
		if (!reader.read(slot)) return false;
		const std::byte* payload = reader.payload(slot, 0);
		EXPECT_NE(payload, nullptr);
		const auto value = static_cast<std::byte>(slot.psn().value);
		EXPECT_TRUE(std::all_of(payload, payload + slot.length, [&](std::byte b) { return b == value; }));
		reader.advance();
		return true;
	}

	std::unique_ptr<Direction> direction = std::make_unique<Direction>();
	SlotWriter writer;
	SlotReader reader;
};

TEST_F(SlotRing, IsEmptyAtFirst) {
	EXPECT_FALSE(reader.ready());
	EXPECT_TRUE(writer.drained());
}

TEST_F(SlotRing, AnAbandonedReservationIsNeverSeen) {
	ASSERT_NE(writer.reserve(100, 0).slot, nullptr);
	EXPECT_FALSE(reader.ready());
	EXPECT_TRUE(write(100, 3));
	EXPECT_TRUE(read());
	EXPECT_FALSE(read());
}

TEST_F(SlotRing, AReaderLearnsLengthAndSource) {
	write(17, 1);
	Slot slot;
	ASSERT_TRUE(reader.read(slot));
	EXPECT_EQ(slot.length, 17u);
	EXPECT_EQ(slot.source(), Qpn{7});
}

TEST_F(SlotRing, APayloadUpToFortyBytesWithItsExtensionRidesInTheSlot) {
	EXPECT_EQ(writer.reserve(24, 16).payload_line, Slot::inline_payload);
	EXPECT_NE(writer.reserve(25, 16).payload_line, Slot::inline_payload);
}

TEST_F(SlotRing, TakesSlotCountSlotsAndThenIsFullUntilTheyAreReleased) {
	for (std::uint32_t i = 0; i < Direction::slot_count; ++i) ASSERT_TRUE(write(8, 1));
	EXPECT_FALSE(write(8, 1));
	while (read()) {}
	EXPECT_FALSE(write(8, 1));
	reader.release();
	EXPECT_TRUE(write(8, 1));
}

TEST_F(SlotRing, TheArenaLimitsLargePayloads) {
	std::uint32_t written = 0;
	while (write(Direction::run_bytes_max, 1)) ++written;
	EXPECT_EQ(written, Direction::arena_bytes / Direction::run_bytes_max);
	EXPECT_TRUE(write(8, 1));  // inline payloads need no arena
}

TEST_F(SlotRing, PayloadsStayWholeThroughManyRounds) {
	std::mt19937 random(3);
	unsigned char value = 0;
	for (int i = 0; i < 50'000; ++i) {
		if (random() % 2) write(random() % 4 ? random() % 200 : random() % (Direction::run_bytes_max + 1), ++value);
		else {
			read();
			if (random() % 3 == 0) reader.release();
		}
	}
	while (read()) {}
	reader.release();
	EXPECT_TRUE(writer.drained());
}

TEST_F(SlotRing, ARewoundRingUsesTheStartOfItsArenaAgain) {
	unsigned char value = 0;
	for (int round = 0; round < 2000; ++round) {
		for (int burst = 0; burst < 3; ++burst) ASSERT_TRUE(write(4000, ++value));
		const Slot& last = direction->slots[(writer.published() - 1) % Direction::slot_count];
		ASSERT_EQ(last.payload_line, 2u * 63);
		while (read()) {}
		reader.release();
		ASSERT_EQ(writer.rewind(), 3u * 63 * 64);
		ASSERT_EQ(writer.rewind(), 0u);
	}
	// The whole arena is there for one burst.
	int slots = 0;
	while (write(4096, ++value)) ++slots;
	EXPECT_EQ(slots, 64);
	while (read()) {}
	reader.release();
	EXPECT_EQ(writer.rewind(), Direction::arena_bytes);
}

TEST_F(SlotRing, AForgedConsumerPositionOnlyStopsTheRing) {
	direction->slots_consumed.store(1'000'000);
	std::uint32_t written = 0;
	while (write(8, 1)) ++written;
	EXPECT_EQ(written, Direction::slot_count);
}

TEST_F(SlotRing, APayloadOutsideTheArenaIsRefused) {
	Slot slot{};
	slot.length = 100;
	slot.payload_line = Direction::arena_lines - 1;
	EXPECT_EQ(reader.payload(slot, 0), nullptr);
	slot.payload_line = Direction::arena_lines;
	EXPECT_EQ(reader.payload(slot, 0), nullptr);
	slot.payload_line = 0;
	slot.length = Direction::run_bytes_max + 1;
	EXPECT_EQ(reader.payload(slot, 0), nullptr);
	slot.payload_line = Slot::inline_payload;
	slot.length = 33;
	EXPECT_EQ(reader.payload(slot, 8), nullptr);
	slot.length = 0xffffffff;
	EXPECT_EQ(reader.payload(slot, 8), nullptr);
}

TEST_F(SlotRing, ASharedPayloadIsNotInTheRing) {
	EXPECT_FALSE(writer.can_share());
	reader.announce_mapping(true);
	EXPECT_TRUE(writer.can_share());
	writer.publish_shared(
		writer.reserve(0, sizeof(SharedPayload)).slot, {.file = 1, .offset = 2, .descriptor = 3}, 20'000, 5, {7});
	Slot slot;
	ASSERT_TRUE(reader.read(slot));
	EXPECT_EQ(slot.length, 20'000u);
	EXPECT_EQ(slot.shared.offset, 2u);
	EXPECT_EQ(reader.payload(slot, 0), nullptr);  // payload() refuses a shared payload
}

TEST_F(SlotRing, ASharedPayloadCanBeRevokedUntilItsSlotIsReleased) {
	for (int round = 0; round < 1000; ++round) {
		writer.publish_shared(writer.reserve(0, sizeof(SharedPayload)).slot, {}, 20'000, 5, {7});
		ASSERT_TRUE(write(8, 1));
		writer.publish_shared(writer.reserve(0, sizeof(SharedPayload)).slot, {}, 20'000, 6, {8});
		Slot slot;
		ASSERT_TRUE(reader.read(slot));
		EXPECT_TRUE(reader.still_shared());
		writer.revoke([](std::uint32_t key, Qpn source) { return key == 5 && source.value == 8; });
		EXPECT_TRUE(reader.still_shared());
		writer.revoke([](std::uint32_t key, Qpn source) { return key == 5 && source.value == 7; });
		EXPECT_FALSE(reader.still_shared());
		reader.advance();
		ASSERT_TRUE(read());
		ASSERT_TRUE(reader.read(slot));
		EXPECT_TRUE(reader.still_shared());
		reader.advance();
		reader.release();
		int asked = 0;
		writer.revoke([&](std::uint32_t, Qpn) { return ++asked > 0; });
		EXPECT_EQ(asked, 0);
	}
}

TEST_F(SlotRing, CarriesEverySlotInOrderBetweenTwoThreads) {
	constexpr std::uint32_t count = 200'000;
	std::jthread producer([&] {
		for (std::uint32_t i = 0; i < count;) {
			const auto room = writer.reserve(4, 0);
			if (!room.slot) {
				std::this_thread::yield();
				continue;
			}
			room.slot->payload_line = room.payload_line;
			std::memcpy(room.payload, &i, 4);
			writer.publish(room.slot, 4);
			++i;
		}
	});
	std::uint32_t expected = 0;
	while (expected < count) {
		Slot slot;
		if (!reader.read(slot)) {
			reader.release();
			std::this_thread::yield();
			continue;
		}
		std::uint32_t value;
		std::memcpy(&value, slot.bytes, 4);
		ASSERT_EQ(value, expected);
		++expected;
		reader.advance();
	}
}

}  // namespace
}  // namespace verbena::wire
