// SPDX-License-Identifier: Apache-2.0
// The bytes of the frames that logical channels exchange over their carrier. A carrier message is a
// row of whole frames, little-endian.
//
//      0            4        5        6          8
//     +------------+--------+--------+----------+-----------------
//     | channel id | kind   | flags  | length   | `length` bytes
//     +------------+--------+--------+----------+-----------------
//
// The first frame each way is `hello`. An id is a place in the opener's table (20 bits) and a
// generation (12 bits), so a late frame for a channel that has ended never meets a new channel.
//
// Errors: the read functions return nothing for bytes that are no such frame.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace verbena::channel {

static_assert(std::endian::native == std::endian::little, "the frame is copied as it is");

enum class MuxKind : std::uint8_t {
	hello = 1,  // version, channels that the sender admits at once, its largest message
	open = 2,  // label, window: what the acceptor may send before it gets credits
	accept = 3,  // window, the other way
	whole = 4,  // a message
	first = 5,  // the length of a message, and its beginning
	more = 6,  // the next bytes of it
	credit = 7,  // limit (cumulative): the charges that the peer may have sent in all
	close = 8,  // the sender sends no more on this channel
	reset = 9,  // the sender has ended this channel; a reason (MuxReset)
};

enum class MuxReset : std::uint32_t {
	gone = 1,  // the program has destroyed the channel
	full = 2,  // the acceptor has as many channels as it admits
	not_in_time = 3,  // the peer did not close in time
	no_memory = 4,  // there is no memory for a message
};

struct MuxFrame {
	static constexpr std::size_t bytes = 8;
	static constexpr std::size_t length_max = 0xffff;

	std::uint32_t id = 0;
	MuxKind kind = MuxKind::hello;
	std::uint8_t flags = 0;
	std::uint16_t length = 0;

	void write(std::byte* to) const { std::memcpy(to, this, bytes); }
	// The header at the beginning of `rest`, if all bytes of its frame are there.
	static std::optional<MuxFrame> read(std::span<const std::byte> rest) {
		if (rest.size() < bytes) return std::nullopt;
		MuxFrame frame;
		std::memcpy(&frame, rest.data(), bytes);
		if (frame.kind < MuxKind::hello || frame.kind > MuxKind::reset || frame.length > rest.size() - bytes)
			return std::nullopt;
		return frame;
	}
};
static_assert(sizeof(MuxFrame) == MuxFrame::bytes);

// The payload of a frame that carries `count` numbers; nothing if it has another length.
template <std::size_t count>
std::optional<std::array<std::uint32_t, count>> read_numbers(std::span<const std::byte> payload) {
	std::array<std::uint32_t, count> numbers;
	if (payload.size() != sizeof numbers) return std::nullopt;
	std::memcpy(numbers.data(), payload.data(), sizeof numbers);
	return numbers;
}

// The bytes of one such number, which must outlive them.
inline std::span<const std::byte> bytes_of_number(const std::uint32_t& number) {
	return std::as_bytes(std::span(&number, 1));
}

struct MuxId {
	static constexpr std::uint32_t slot_bits = 20, slots_max = 1u << slot_bits;

	static std::uint32_t of(std::uint32_t slot, std::uint32_t generation) { return generation << slot_bits | slot; }
	static std::uint32_t slot(std::uint32_t id) { return id & (slots_max - 1); }
};

}  // namespace verbena::channel
