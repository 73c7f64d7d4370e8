// What logical channels say to each other over their carrier: a carrier message is a row of frames, little-endian, none
// cut in two.
//
//      0            4        5        6          8
//     +------------+--------+--------+----------+-----------------
//     | channel id | kind   | flags  | length   | `length` bytes
//     +------------+--------+--------+----------+-----------------
//
// The first frame each way is `hello`. An id is a place in the opener's table (20 bits) and a generation (12 bits): a
// frame for a channel that is gone meets no new one.
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
	hello = 1,  // version, how many channels the sender admits at once, its largest message
	open = 2,  // label, window: what the acceptor may send before it hears of more
	accept = 3,  // window, the other way
	whole = 4,  // a message
	first = 5,  // the length of a message, and its beginning
	more = 6,  // the next bytes of it
	credit = 7,  // limit (cumulative): how much the peer may have sent in all
	close = 8,  // the sender sends no more on this channel
	reset = 9,  // and takes no more either; a reason
};

enum class MuxReset : std::uint32_t {
	gone = 1,  // the program let it go
	full = 2,  // as many channels as are admitted
	not_in_time = 3,
	no_memory = 4,
};

struct MuxFrame {
	static constexpr std::size_t bytes = 8;
	static constexpr std::size_t length_max = 0xffff;

	std::uint32_t id = 0;
	MuxKind kind = MuxKind::hello;
	std::uint8_t flags = 0;
	std::uint16_t length = 0;

	void write(std::byte* to) const { std::memcpy(to, this, bytes); }
	// The frame whose bytes `rest` begins with, all of them.
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

// The payload of frames that carry numbers and nothing else; nothing if it has another length.
template <std::size_t count>
std::optional<std::array<std::uint32_t, count>> read_numbers(std::span<const std::byte> payload) {
	std::array<std::uint32_t, count> numbers;
	if (payload.size() != sizeof numbers) return std::nullopt;
	std::memcpy(numbers.data(), payload.data(), sizeof numbers);
	return numbers;
}

struct MuxId {
	static constexpr std::uint32_t slot_bits = 20, slots_max = 1u << slot_bits;

	static std::uint32_t of(std::uint32_t slot, std::uint32_t generation) { return generation << slot_bits | slot; }
	static std::uint32_t slot(std::uint32_t id) { return id & (slots_max - 1); }
};

}  // namespace verbena::channel
