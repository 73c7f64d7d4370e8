// SPDX-License-Identifier: Apache-2.0
// The bytes of a frame: one SEND of at most a unit, little-endian.
//
//      0        1        2              3            4                      8
//     +--------+--------+--------------+------------+----------------------+----------------
//     | kind   | flags  | credits seen | wants seen | limit (cumulative)   | messages (data)
//     +--------+--------+--------------+------------+----------------------+----------------
//
// Each message of a data frame begins with 4 bytes: its kind in the upper 3 bits, a length in the
// lower 29. docs/channel-protocol.md describes the exchange of frames, and credits.h describes
// credits and the numbers in the header.
//
// Errors: read() returns std::nullopt for bytes that are not a valid header. It does not compare
//   lengths with the size of the frame; are_messages() in inbox.h does.
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
	credit = 2,  // carries a new limit in its header, and nothing else
	want = 3,  // its sender waits for credits
	close = 4,  // its sender sends no more messages
	taken = 5,  // its sender has fetched the N oldest offers of its peer; `flags` is N
};

struct FrameHeader {
	static constexpr std::size_t bytes = 8;
	// A flag of a `data` frame: the sender has more messages, which wait for credits.
	static constexpr std::uint8_t wants_more = 1;

	FrameKind kind = FrameKind::data;
	std::uint8_t flags = 0;
	// The numbers of `credit` and of `want` frames that have arrived from the peer, modulo 256.
	std::uint8_t credits_seen = 0;
	std::uint8_t wants_seen = 0;
	// The number of data and close frames that the peer may send in all, counted from the start of
	// the connection, modulo 2^32.
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
	whole = 0,  // a whole message: `length` bytes follow
	first = 1,  // the message has `length` bytes; the rest of the frame is its first part
	more = 2,  // the next part of the message that has begun: `length` bytes follow
	// The first or the next part of a message: an Offer follows, and then bytes, together `length`
	// bytes. The part consists of these bytes, and then of those to which the Offer refers.
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

// Refers to a part of a message that the receiver fetches by RDMA READ. `address`, `length` and
// `rkey` are the part's memory at the sender; `total` is the length of the whole message.
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
