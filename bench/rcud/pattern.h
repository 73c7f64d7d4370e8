// SPDX-License-Identifier: Apache-2.0
// The contents of messages. Without a seed a message carries its stamp alone (stamps.h): the bytes
// between are not written and not checked. With a seed every byte is a function of the seed, the
// stamp (run and message number) and the byte's offset, and every byte is checked:
//
//     offset 0       the stamp
//     8 ...          words: key + constant, key + 2 * constant, ...; the key is the mixed stamp
//     bytes - 8      the key, from 16 bytes on
//
// A message below 8 bytes has no room for its stamp, so its number must be known (RC delivers in
// order); it holds the first bytes of the words.
//
// Threads: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace verbena::rcud {

inline std::uint64_t load_stamp(const std::byte* at) {
	std::uint64_t stamp;
	std::memcpy(&stamp, at, sizeof stamp);
	return stamp;
}

class Pattern {
public:
	// 0: no seed.
	explicit Pattern(std::uint64_t seed = 0) : seed_(seed) {}

	bool covers_every_byte() const { return seed_ != 0; }

	// The last 8 bytes of a message of 16 bytes or more.
	std::uint64_t tail(std::uint64_t stamp) const { return covers_every_byte() ? key(stamp) : stamp; }

	void write(std::byte* message, std::size_t bytes, std::uint64_t stamp) const {
		if (bytes >= 8) std::memcpy(message, &stamp, sizeof stamp);
		if (covers_every_byte()) [[unlikely]]
			return fill(message, bytes, stamp);
		if (bytes >= 16) std::memcpy(message + bytes - 8, &stamp, sizeof stamp);
	}

	// Makes sure that the message agrees with no stamp.
	void spoil(std::byte* message, std::size_t bytes) const {
		if (covers_every_byte()) [[unlikely]]
			std::memset(message, 0xff, bytes);
		else write(message, bytes, UINT64_MAX);
	}

	// Whether the message is the one with this stamp, as far as the pattern covers it.
	bool agrees(const std::byte* message, std::size_t bytes, std::uint64_t stamp) const {
		if (bytes >= 8 && load_stamp(message) != stamp) return false;
		if (covers_every_byte()) [[unlikely]]
			return matches(message, bytes, stamp);
		return bytes < 16 || load_stamp(message + bytes - 8) == stamp;
	}

private:
	static constexpr std::uint64_t step = 0x9e37'79b9'7f4a'7c15;  // odd, and no byte of it is 0

	std::uint64_t key(std::uint64_t stamp) const {
		std::uint64_t state = seed_ ^ stamp;
		return split_mix(state);
	}

	// The bytes behind the stamp. These two are not inlined: without a seed, the loops that call
	// them stay small.
	[[gnu::noinline]] void fill(std::byte* message, std::size_t bytes, std::uint64_t stamp) const {
		const std::uint64_t last = key(stamp);
		std::byte* at = message + (bytes >= 8 ? 8 : 0);
		std::byte* const end = message + (bytes >= 16 ? bytes - 8 : bytes);
		std::uint64_t word = last + step;
		for (; end - at >= 8; at += 8, word += step) std::memcpy(at, &word, 8);
		std::memcpy(at, &word, static_cast<std::size_t>(end - at));
		if (bytes >= 16) std::memcpy(end, &last, 8);
	}
	[[gnu::noinline]] bool matches(const std::byte* message, std::size_t bytes, std::uint64_t stamp) const {
		const std::uint64_t last = key(stamp);
		const std::byte* at = message + (bytes >= 8 ? 8 : 0);
		const std::byte* const end = message + (bytes >= 16 ? bytes - 8 : bytes);
		std::uint64_t word = last + step, differ = 0;
		for (; end - at >= 8; at += 8, word += step) differ |= load_stamp(at) ^ word;
		differ |= static_cast<std::uint64_t>(std::memcmp(at, &word, static_cast<std::size_t>(end - at)) != 0);
		return differ == 0 && (bytes < 16 || load_stamp(end) == last);
	}

	std::uint64_t seed_;
};

}  // namespace verbena::rcud
