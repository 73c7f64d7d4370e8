// The bytes of a frame: one SEND of at most a unit, little-endian.
//
//      0        1        2              3            4                      8
//     +--------+--------+--------------+------------+----------------------+----------------
//     | kind   | flags  | credits seen | wants seen | limit (cumulative)   | messages (data)
//     +--------+--------+--------------+------------+----------------------+----------------
//
// Each message of a data frame begins with 4 bytes: its kind in the upper 3 bits, a length in the
// lower 29. docs/channel-protocol.md describes the exchange, credits.h the numbers in the header.
//
// Errors: read() returns nothing for bytes that are no header; it checks no lengths against the
//   frame (are_messages() in inbox.h does).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace verbena::channel {

// Copies the two spans, one after the other, to `to`.
inline void gather(const std::array<std::span<const std::byte>, 2>& from, std::byte* to) {
	for (const auto& each : from) {
		if (!each.empty()) std::memcpy(to, each.data(), each.size());
		to += each.size();
	}
}

static_assert(std::endian::native == std::endian::little, "the frame is copied as it is");

enum class FrameKind : std::uint8_t {
	data = 1,
	credit = 2,  // carries credits: its header says everything
	want = 3,  // its sender waits for credits
	close = 4,  // its sender sends no more messages
	taken = 5,  // its sender has fetched the `flags` oldest offers of its peer
};

struct FrameHeader {
	static constexpr std::size_t bytes = 8;
	// A flag of `data`: more messages wait for credits.
	static constexpr std::uint8_t wants_more = 1;

	FrameKind kind = FrameKind::data;
	std::uint8_t flags = 0;
	std::uint8_t credits_seen = 0;  // credit frames of the peer that were seen, modulo 256
	std::uint8_t wants_seen = 0;  // likewise `want` frames
	std::uint32_t limit = 0;  // data frames that the peer may have sent in all, modulo 2^32

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
	whole = 0,  // a message: `length` bytes follow
	first = 1,  // the first part of a message of `length` bytes: the rest of the frame
	more = 2,  // the next part of that message: `length` bytes follow
	// The next part, or the first: an Offer and bytes follow, `length` in all. The message goes on
	// with these bytes and then with those that the Offer names.
	offer = 3,
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

// A part of a message of `total` bytes that the receiver fetches by RDMA READ.
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
