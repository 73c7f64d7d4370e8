// SPDX-License-Identifier: Apache-2.0
// Decides whether a message that was printed a moment ago is printed again. The same text is let
// through once in a second, so that a program that repeats a mistake in a loop can still be read.
//
// Threads: not thread-safe; the caller has a lock.
// Invariants: a text that was not seen within `pause` is always let through. Two texts whose hashes
//   share a place displace each other; then a repetition may be let through early.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"

namespace verbena {

class RepeatFilter {
public:
	static constexpr Nanoseconds pause = 1'000'000'000;

	// Nothing if the text shall be left out. Otherwise the number of times that it has been left
	// out since it was last let through.
	std::optional<std::uint32_t> admit(std::string_view text, Nanoseconds now) {
		const std::uint64_t hash = hash_of(text);
		Entry& entry = entries_[hash % entries_.size()];
		if (entry.hash != hash) {
			entry = {hash, now, 0};
			return 0;
		}
		if (now - entry.admitted_at < pause) {
			++entry.left_out;
			return std::nullopt;
		}
		const std::uint32_t left_out = entry.left_out;
		entry = {hash, now, 0};
		return left_out;
	}

private:
	struct Entry {
		std::uint64_t hash = 0;
		Nanoseconds admitted_at = 0;
		std::uint32_t left_out = 0;
	};

	// FNV-1a; never 0, which marks an unused entry.
	static constexpr std::uint64_t hash_of(std::string_view text) {
		std::uint64_t hash = 0xcbf29ce484222325;
		for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
		return hash | 1;
	}

	std::array<Entry, 64> entries_{};
};

}  // namespace verbena
