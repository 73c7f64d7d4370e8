// SPDX-License-Identifier: Apache-2.0
// The bytes of requests, and their check, for this library and for the other systems.
//
// Threads: thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace verbena::rpcbench {

inline constexpr std::string_view reply_of_sink = "13 bytes back";

// Fills a payload with bytes that depend on their position, so that losses and moves show.
inline void fill(std::span<char> payload) {
	for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 131 >> 3);
}
// Writes the request's number into the first and, from 16 bytes on, the last eight bytes.
inline void stamp(std::span<char> payload, std::uint64_t number) {
	std::memcpy(payload.data(), &number, std::min(sizeof number, payload.size()));
	if (payload.size() >= 2 * sizeof number)
		std::memcpy(payload.data() + payload.size() - sizeof number, &number, sizeof number);
}
// Checks a payload: that the stamps at both ends are equal; and, if the number is a multiple of 64,
// all bytes between them.
inline bool is_whole(std::string_view payload) {
	if (payload.size() < 16) return true;
	std::uint64_t first = 0, last = 0;
	std::memcpy(&first, payload.data(), sizeof first);
	std::memcpy(&last, payload.data() + payload.size() - sizeof last, sizeof last);
	if (first != last) return false;
	if (first % 64 != 0) return true;
	// Compare with bytes that are kept: computing them would take longer than the call.
	thread_local std::string expected;
	if (expected.size() < payload.size()) {
		expected.resize(payload.size());
		fill(expected);
	}
	constexpr std::size_t ends = sizeof first + sizeof last;
	return std::memcmp(payload.data() + sizeof first, expected.data() + sizeof first, payload.size() - ends) == 0;
}

}  // namespace verbena::rpcbench
