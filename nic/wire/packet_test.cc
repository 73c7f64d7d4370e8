// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/packet.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "nic/wire/hex.h"

namespace verbena::wire {
namespace {

constexpr Flow flow{.source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1},
	.destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2},
	.source_port = 0xc000};

struct Options {
	std::uint32_t length = 0;
	std::uint8_t flags = 3 << slot_mtu_shift;  // path MTU 1024
	std::uint32_t psn = 100;
};

Slot make(Opcode opcode, const Options& options) {
	Slot slot{};
	slot.set_bth(opcode, {0x123456}, {options.psn}, options.flags);
	slot.length = options.length;
	slot.word = 0;
	slot.payload_line = Slot::inline_payload;
	return slot;
}

std::vector<std::byte> pattern(std::size_t size) {
	std::vector<std::byte> bytes(size);
	for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
	return bytes;
}

std::vector<std::byte> packet(
	const Slot& slot, std::uint32_t index, std::span<const std::byte> payload, std::uint16_t ip_id = 0) {
	std::vector<std::byte> bytes(packet_bytes_max);
	bytes.resize(write_packet(slot, index, payload.data(), flow, ip_id, bytes));
	return bytes;
}

std::vector<std::byte> head(std::vector<std::byte> bytes, std::size_t size) {
	bytes.resize(size);
	return bytes;
}

std::vector<Opcode> opcodes(const Slot& slot) {
	std::vector<Opcode> result;
	for (std::uint32_t i = 0; i < packet_count(slot); ++i) result.push_back(piece_of(slot, i).opcode);
	return result;
}

using enum Opcode;
using Opcodes = std::vector<Opcode>;

TEST(Packet, AShortSendIsItsLiteralBytes) {
	Slot slot = make(rc_send_only, {.length = 5, .flags = 3 << slot_mtu_shift | slot_ack_requested, .psn = 0xb945a2});
	const auto bytes = packet(slot, 0, pattern(5));
	ASSERT_EQ(bytes.size(), 12u + 5 + 3 + 4);
	EXPECT_TRUE(std::ranges::equal(std::span(bytes).first(20), hex("0430ffff 00123456 80b945a2 00070e15 1c000000")));
}

TEST(Packet, HeadersStandInTheOrderOfTheSpecification) {
	Slot slot = make(rc_write_only_imm, {.length = 4});
	slot.reth = {.address = 0x1000, .rkey = {0x42}, .dma_length = 4};
	slot.word = std::bit_cast<std::uint32_t>(std::array<std::uint8_t, 4>{1, 2, 3, 4});
	EXPECT_TRUE(std::ranges::equal(head(packet(slot, 0, pattern(4)), 36),
		hex("0b00ffff 00123456 00000064 00000000 00001000 00000042 00000004 01020304 00070e15")));

	Slot datagram = make(ud_send_only_imm, {.length = 4});
	datagram.deth = {.q_key = 0x11111111, .source = 0x000abc << 8 | 9};
	datagram.word = slot.word;
	EXPECT_TRUE(std::ranges::equal(head(packet(datagram, 0, pattern(4)), 28),
		hex("6500ffff 00123456 00000064 11111111 00000abc 01020304 00070e15")));

	Slot result = make(rc_atomic_acknowledge, {});
	result.set_aeth(syndrome::ack, 7);
	result.atomic_result = 0x0102030405060708;
	EXPECT_TRUE(std::ranges::equal(
		head(packet(result, 0, {}), 24), hex("1200ffff 00123456 00000064 1f000007 01020304 05060708")));
}

TEST(Run, AFirstOfEightPathMtusIsFirstAndSevenMiddles) {
	EXPECT_EQ(opcodes(make(rc_send_first, {.length = 8192})),
		(Opcodes{rc_send_first, rc_send_middle, rc_send_middle, rc_send_middle, rc_send_middle, rc_send_middle,
			rc_send_middle, rc_send_middle}));
}

TEST(Run, AnOnlyLongerThanThePathMtuBeginsAndEndsItsMessage) {
	EXPECT_EQ(opcodes(make(rc_write_only_imm, {.length = 2049})),
		(Opcodes{rc_write_first, rc_write_middle, rc_write_last_imm}));
	EXPECT_EQ(
		opcodes(make(rc_send_only_invalidate, {.length = 1025})), (Opcodes{rc_send_first, rc_send_last_invalidate}));
	EXPECT_EQ(opcodes(make(uc_send_only, {.length = 2048})), (Opcodes{uc_send_first, uc_send_last}));
	EXPECT_EQ(opcodes(make(rc_read_response_only, {.length = 3072})),
		(Opcodes{rc_read_response_first, rc_read_response_middle, rc_read_response_last}));
}

TEST(Run, AMiddleStaysAMiddleAndALastEndsWithALast) {
	EXPECT_EQ(opcodes(make(uc_write_middle, {.length = 2048})), (Opcodes{uc_write_middle, uc_write_middle}));
	EXPECT_EQ(opcodes(make(rc_send_last_imm, {.length = 1500})), (Opcodes{rc_send_middle, rc_send_last_imm}));
	EXPECT_EQ(opcodes(make(rc_read_response_last, {.length = 1500})),
		(Opcodes{rc_read_response_middle, rc_read_response_last}));
}

TEST(Run, ASlotThatFitsThePathMtuIsOnePacketWithItsOwnOpcode) {
	EXPECT_EQ(opcodes(make(rc_send_only_imm, {.length = 1024})), Opcodes{rc_send_only_imm});
	EXPECT_EQ(opcodes(make(rc_write_only, {.length = 0})), Opcodes{rc_write_only});
}

TEST(Run, AReadRequestADatagramAndASlotWithoutAPathMtuAreNeverCut) {
	Slot request = make(rc_read_request, {});
	request.reth.dma_length = 1 << 20;
	EXPECT_EQ(packet_count(request), 1u);
	EXPECT_EQ(packet_count(make(ud_send_only, {.length = 2048})), 1u);
	EXPECT_EQ(packet_count(make(rc_send_only, {.length = 2048, .flags = 0})), 1u);
}

TEST(Run, PsnsCountUpAndWrapAt24Bits) {
	const Slot slot = make(rc_send_only, {.length = 3000, .psn = 0xffffff});
	EXPECT_EQ(piece_of(slot, 0).psn, Psn24{0xffffff});
	EXPECT_EQ(piece_of(slot, 1).psn, Psn24{0});
	EXPECT_EQ(piece_of(slot, 2).psn, Psn24{1});
}

TEST(Run, OnlyTheLastPacketCarriesTheFlags) {
	const Slot slot =
		make(rc_send_only, {.length = 2000, .flags = 3 << slot_mtu_shift | slot_ack_requested | slot_solicited});
	const auto first = parse(flow, packet(slot, 0, pattern(2000)), {}),
			   last = parse(flow, packet(slot, 1, pattern(2000)), {});
	ASSERT_TRUE(first && last);
	EXPECT_FALSE(first->slot.ack_requested() || first->slot.solicited());
	EXPECT_TRUE(last->slot.ack_requested() && last->slot.solicited());
}

// For every opcode and several lengths and path MTUs: parsing gives what was written, and the
// pieces make up the whole.
TEST(Parse, GivesBackWhatWasWritten) {
	std::mt19937 random(1);
	const auto payload = pattern(Slot::inline_bytes_max + 8192);
	for (int value = 0; value < 256; ++value) {
		const OpcodeFacts& f = facts(Opcode(value));
		if (!f.known) continue;
		const bool with_payload = f.operation <= Operation::write || f.operation == Operation::read_response;
		for (const std::uint32_t length : {0, 1, 2, 3, 4, 255, 256, 1024, 1025, 4096, 8191, 8192}) {
			if (length != 0 && (!with_payload || (f.transport == Transport::ud && length > 4096))) continue;
			// FIRST and MIDDLE packets are full.
			if (!f.last && (length == 0 || length % 4096 != 0)) continue;
			for (unsigned mtu = 1; mtu <= 5; ++mtu) {
				Slot slot = make(Opcode(value),
					{.length = length, .flags = static_cast<std::uint8_t>(mtu << slot_mtu_shift), .psn = 5});
				for (std::byte& b : slot.bytes) b = static_cast<std::byte>(random());
				slot.atomic.reserved = f.atomic_eth ? 0 : slot.atomic.reserved;
				slot.deth.source &= f.deth ? 0xffffff00 : 0xffffffff;
				slot.word = f.aeth || f.immediate || f.invalidate ? static_cast<std::uint32_t>(random()) : 0;
				std::uint32_t seen = 0;
				for (std::uint32_t i = 0; i < packet_count(slot); ++i) {
					const auto bytes = packet(slot, i, payload, 3);
					ASSERT_EQ(bytes.size(), piece_of(slot, i).wire_bytes());
					const auto parsed = parse(flow, bytes, {.id = 3});
					ASSERT_TRUE(parsed) << name(parsed.error()) << " opcode " << value << " length " << length;
					EXPECT_EQ(parsed->slot.opcode(), piece_of(slot, i).opcode);
					EXPECT_EQ(parsed->slot.psn(), Psn24{5 + i});
					EXPECT_EQ(parsed->slot.destination(), slot.destination());
					EXPECT_EQ(parsed->slot.length, parsed->payload.size());
					ASSERT_TRUE(
						std::ranges::equal(parsed->payload, std::span(payload).subspan(seen, parsed->payload.size())));
					seen += parsed->slot.length;
					const OpcodeFacts& g = facts(parsed->slot.opcode());
					EXPECT_EQ(std::memcmp(parsed->slot.bytes, slot.bytes, extension_bytes(g)), 0);
					if (g.aeth || g.immediate || g.invalidate) {
						EXPECT_EQ(parsed->slot.word, slot.word);
					}
					if (g.deth) {
						EXPECT_EQ(parsed->slot.source(), slot.deth.source_qp());
					}
				}
				EXPECT_EQ(seen, length);
			}
		}
	}
}

TEST(Parse, FindsTheIdentificationOfAForeignSender) {
	const auto parsed = parse(flow, packet(make(rc_send_only, {.length = 100}), 0, pattern(100), 0x718c), {});
	ASSERT_TRUE(parsed);
	EXPECT_EQ(parsed->ip.id, 0x718c);
}

TEST(Parse, NamesWhatItRefuses) {
	const auto good = packet(make(rc_send_only, {.length = 5}), 0, pattern(5));
	const auto refused = [](std::vector<std::byte> bytes) {
		const auto parsed = parse(flow, bytes, {});
		return parsed ? "accepted" : name(parsed.error());
	};
	const auto with = [&](std::size_t at, int value) {
		auto bytes = good;
		bytes[at] = static_cast<std::byte>(value);
		return bytes;
	};
	const auto sized = [&](std::size_t size) {
		auto bytes = good;
		bytes.resize(size);
		return bytes;
	};
	EXPECT_EQ(refused(good), "accepted");
	EXPECT_EQ(refused({}), "too_short");
	EXPECT_EQ(refused(sized(15)), "too_short");
	EXPECT_EQ(refused(sized(16)), "too_short");  // no room for its pad
	EXPECT_EQ(refused(sized(packet_bytes_max + 1)), "too_long");
	EXPECT_EQ(refused(with(1, 0x31)), "wrong_version");
	EXPECT_EQ(refused(with(0, 0x81)), "unknown_opcode");
	EXPECT_EQ(refused(with(0, 0x11)), "wrong_length");  // an acknowledgement with payload
	EXPECT_EQ(refused(with(0, 0x00)), "wrong_pad");     // FIRST with pad
	EXPECT_EQ(refused(sized(good.size() - 1)), "wrong_pad");
	EXPECT_EQ(refused(with(13, 0x55)), "wrong_icrc");
	EXPECT_EQ(refused(with(2, 0x12)), "wrong_icrc");
}

TEST(Parse, RefusesAnotherPartition) {
	auto bytes = packet(make(rc_send_only, {.length = 4}), 0, pattern(4));
	bytes[2] = std::byte{0x7f};
	const auto seal = [&] {
		const std::uint32_t value = icrc(flow, {}, {.headers = std::span(bytes).first(16)});
		std::memcpy(&bytes[16], &value, icrc_size);
	};
	seal();
	EXPECT_TRUE(parse(flow, bytes, {}));  // a limited member of our partition
	bytes[2] = std::byte{0x80};
	seal();
	EXPECT_EQ(parse(flow, bytes, {}).error(), DropReason::foreign_p_key);
}

TEST(Parse, SurvivesRandomBytes) {
	std::mt19937 random(7);
	for (int i = 0; i < 20'000; ++i) {
		std::vector<std::byte> bytes(random() % 128);
		for (std::byte& b : bytes) b = static_cast<std::byte>(random());
		if (bytes.size() > 1) bytes[1] &= std::byte{0xf0};
		(void)parse(flow, bytes, {});
	}
}

// The capture of icrc_test.cc.
TEST(Parse, ACapturedCongestionNotificationIsKnownAndIgnored) {
	constexpr Flow from_adapter{.source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0x11, 1},
		.destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0x12, 1},
		.source_port = 0};
	auto bytes = hex("8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a");
	EXPECT_EQ(parse(from_adapter, bytes, {}).error(), DropReason::congestion_notification);
	bytes[20] ^= std::byte{1};
	EXPECT_EQ(parse(from_adapter, bytes, {}).error(), DropReason::wrong_icrc);
	bytes.resize(bytes.size() - 4);
	EXPECT_EQ(parse(from_adapter, bytes, {}).error(), DropReason::unknown_opcode) << "not a notification's length";
}

}  // namespace
}  // namespace verbena::wire
