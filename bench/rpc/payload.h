// The bytes of requests, and how they are checked: by our functions and other systems' alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace verbena::rpcbench {

inline constexpr std::string_view reply_of_sink = "13 bytes back";

// A payload's bytes go by their place, so that what is lost or moved shows; its first eight are its stamp.
inline void fill(std::span<char> payload) {
	for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 131 >> 3);
}
inline void stamp(std::span<char> payload, std::uint64_t number) {
	std::memcpy(payload.data(), &number, std::min(sizeof number, payload.size()));
	if (payload.size() >= 2 * sizeof number) std::memcpy(payload.data() + payload.size() - sizeof number, &number, sizeof number);
}
// The stamp at both ends of every payload; all bytes between of each whose number is a multiple of 64.
inline bool is_whole(std::string_view payload) {
	if (payload.size() < 16) return true;
	std::uint64_t first = 0, last = 0;
	std::memcpy(&first, payload.data(), sizeof first);
	std::memcpy(&last, payload.data() + payload.size() - sizeof last, sizeof last);
	if (first != last) return false;
	for (std::size_t i = 8; first % 64 == 0 && i < payload.size() - 8; ++i)
		if (payload[i] != static_cast<char>(i * 131 >> 3)) return false;
	return true;
}

}  // namespace verbena::rpcbench
