// What a frame looks like on the wire: one SEND of at most a unit, little-endian.
//
//      0        1        2              3            4                      8
//     +--------+--------+--------------+------------+----------------------+-------------------------
//     | kind   | flags  | credits seen | wants seen | limit (cumulative)   | messages ... (data only)
//     +--------+--------+--------------+------------+----------------------+-------------------------
//
// Each message of a data frame begins with 4 bytes: its kind in the upper 3 bits, a length in the lower 29.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace verbena::channel {

// Copies the two, one after the other.
inline void gather(const std::array<std::span<const std::byte>, 2>& from, std::byte* to) {
	for (const auto& each : from) {
		if (!each.empty()) std::memcpy(to, each.data(), each.size());
		to += each.size();
	}
}

static_assert(std::endian::native == std::endian::little, "the frame is copied as it is");

enum class FrameKind : std::uint8_t {
	data = 1,
	credit = 2,     // only its header matters
	want = 3,       // the sender waits for credits
	close = 4,      // the sender sends no more
	taken = 5,      // `flags` offers of the peer were read, the oldest ones
};

struct FrameHeader {
	static constexpr std::size_t bytes = 8;
	static constexpr std::uint8_t wants_more = 1;  // flag: messages wait for credits behind this frame

	FrameKind kind = FrameKind::data;
	std::uint8_t flags = 0;
	std::uint8_t credits_seen = 0;
	std::uint8_t wants_seen = 0;
	std::uint32_t limit = 0;

	void write(std::byte* to) const { std::memcpy(to, this, bytes); }
	static std::optional<FrameHeader> read(std::span<const std::byte> frame) {
		if (frame.size() < bytes) return std::nullopt;
		FrameHeader header;
		std::memcpy(&header, frame.data(), bytes);
		if (header.kind < FrameKind::data || header.kind > FrameKind::taken) return std::nullopt;
		return header;
	}
};
static_assert(sizeof(FrameHeader) == FrameHeader::bytes);

enum class MessageKind : std::uint8_t {
	whole = 0,     // length bytes follow
	first = 1,     // of a message of `length` bytes; the rest of the frame is its beginning
	more = 2,      // `length` bytes of it follow, the next ones
	offer =
		3,  // an Offer and bytes follow, `length` in all: these bytes, and then those of the offer, are the next ones
};

struct MessageHeader {
	static constexpr std::size_t bytes = 4;
	static constexpr std::uint32_t length_max = (1u << 29) - 1;

	MessageKind kind = MessageKind::whole;
	std::uint32_t length = 0;

	void write(std::byte* to) const {
		const std::uint32_t word = static_cast<std::uint32_t>(kind) << 29 | length;
		std::memcpy(to, &word, bytes);
	}
	static std::optional<MessageHeader> read(std::span<const std::byte> from) {
		if (from.size() < bytes) return std::nullopt;
		std::uint32_t word;
		std::memcpy(&word, from.data(), bytes);
		const MessageHeader header{.kind = static_cast<MessageKind>(word >> 29), .length = word & length_max};
		if (header.kind > MessageKind::offer) return std::nullopt;
		return header;
	}
};

// A part of a message that the receiver fetches by RDMA READ. It may begin a message of `total` bytes.
struct Offer {
	static constexpr std::size_t bytes = 24;

	std::uint64_t address = 0;
	std::uint32_t length = 0;
	std::uint32_t rkey = 0;
	std::uint32_t total = 0;
	std::uint32_t unused = 0;

	void write(std::byte* to) const { std::memcpy(to, this, bytes); }
	static Offer read(std::span<const std::byte> from) {
		Offer offer;
		std::memcpy(&offer, from.data(), bytes);
		return offer;
	}
};
static_assert(sizeof(Offer) == Offer::bytes);

}  // namespace verbena::channel
