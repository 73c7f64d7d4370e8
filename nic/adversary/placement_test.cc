// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace verbena::adversary {
namespace {

memory::Routines routines() {
	static const memory::Routines plain = [] {
		const memory::Routines now = memory::replace_routines({});
		memory::replace_routines(now);
		return now;
	}();
	return plain;
}

constexpr Moment start{0, 0}, late{0, delay_max + 1};

// A buffer of zeros, and messages of ones for it.
struct Buffer {
	explicit Buffer(const char* text) : placement(*parse(text), routines()) {}

	bool place(std::uint64_t message, std::size_t begin, std::size_t n, std::uint32_t qpn = 1) {
		const std::vector<std::byte> ones(n, std::byte{1});
		return placement.place({.qpn = qpn, .message = message, .identity = {.object = qpn, .number = message}},
			&bytes[begin], ones.data(), n, start);
	}
	std::size_t stored(std::size_t begin, std::size_t n) const {
		return static_cast<std::size_t>(std::count(&bytes[begin], &bytes[begin] + n, std::byte{1}));
	}

	alignas(64) std::array<std::byte, 4096> bytes{};
	Placement placement;
};

std::string text(const char* model, int seed) { return std::to_string(seed) + ":" + model; }

TEST(Placement, SomeBytesAreLateAndAllComeWithTime) {
	int late_ones = 0;
	for (int seed = 0; seed < 100; ++seed) {
		Buffer buffer(text("tso", seed).c_str());
		ASSERT_TRUE(buffer.place(1, 0, 1000));
		late_ones += buffer.stored(0, 1000) < 1000;
		EXPECT_EQ(buffer.placement.empty(), buffer.stored(0, 1000) == 1000);
		buffer.placement.advance(late);
		EXPECT_EQ(buffer.stored(0, 1000), 1000u);
		EXPECT_TRUE(buffer.placement.empty());
		EXPECT_EQ(buffer.stored(1000, 3096), 0u);
	}
	EXPECT_GT(late_ones, 20);
	EXPECT_LT(late_ones, 80);
}

TEST(Placement, UnderTsoALaterMessageWaitsForAnEarlierOneAndUnderIbaNot) {
	int overtaken = 0;
	for (int seed = 0; seed < 200; ++seed) {
		for (const char* model : {"tso", "iba"}) {
			Buffer buffer(text(model, seed).c_str());
			buffer.place(1, 0, 8);
			buffer.place(2, 64, 8);
			const bool wrong = buffer.stored(64, 8) == 8 && buffer.stored(0, 8) == 0;
			if (*model == 't') EXPECT_FALSE(wrong) << seed;
			else overtaken += wrong;
		}
	}
	EXPECT_GT(overtaken, 0);
}

TEST(Placement, WhereMessagesOverlapTheLaterOneIsTheLast) {
	for (int seed = 0; seed < 200; ++seed) {
		for (const char* model : {"tso", "iba"}) {
			Buffer buffer(text(model, seed).c_str());
			buffer.place(1, 0, 128);
			const std::vector<std::byte> twos(64, std::byte{2});
			buffer.placement.place(
				{.qpn = 1, .message = 2, .identity = {.number = 2}}, &buffer.bytes[32], twos.data(), 64, start);
			buffer.placement.drain_all();
			EXPECT_EQ(buffer.stored(0, 128), 64u) << model << " " << seed;
		}
	}
}

TEST(Placement, AnOrderingPointStoresTheBytesOfItsQueuePairAlone) {
	int untouched = 0;
	for (int seed = 0; seed < 100; ++seed) {
		Buffer buffer(text("tso", seed).c_str());
		buffer.place(1, 0, 8, 1);
		buffer.place(1, 64, 8, 2);
		buffer.placement.drain(1, Side::responder);
		EXPECT_EQ(buffer.stored(0, 8), 8u);
		untouched += buffer.stored(64, 8) == 0;
	}
	EXPECT_GT(untouched, 20);
}

TEST(Placement, AnAtomicIsStoredBeforeWhatComesAfterIt) {
	for (int seed = 0; seed < 100; ++seed) {
		Buffer buffer(text("loose", seed).c_str());
		auto* const word = reinterpret_cast<std::uint64_t*>(&buffer.bytes[0]);
		buffer.placement.store_later({.qpn = 1}, word, 7);
		EXPECT_EQ(*word, 0u);
		buffer.place(2, 64, 8);
		EXPECT_EQ(buffer.stored(64, 8), 0u);
		buffer.placement.drain_atomics(word);
		EXPECT_EQ(*word, 7u);
	}
}

TEST(Placement, ASeedDecidesAlikeEachTime) {
	for (int seed = 0; seed < 20; ++seed) {
		Buffer first(text("tso", seed).c_str()), second(text("tso", seed).c_str());
		first.place(1, 10, 900);
		second.place(1, 10, 900);
		EXPECT_EQ(first.bytes, second.bytes);
	}
}

TEST(Placement, MoreThanItMayHoldIsStoredAtOnce) {
	Placement placement(*parse("1:tso"), routines());
	std::vector<std::byte> memory(4 << 20), ones(4 << 20, std::byte{1});
	for (std::uint64_t i = 0; i < 64; ++i)
		placement.place(
			{.qpn = 1, .message = i, .identity = {.number = i}}, &memory[i << 16], ones.data(), 1 << 16, start);
	EXPECT_GE(std::ranges::count(memory, std::byte{1}), std::ptrdiff_t(memory.size() - Placement::bytes_max));
	placement.drain_all();
	EXPECT_EQ(memory, ones);
}

}  // namespace
}  // namespace verbena::adversary
