// SPDX-License-Identifier: Apache-2.0
// Questions about the memory of requests.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nic/queues/work_request.h"

namespace verbena::rules {

// True if [a, a + a_length) and [b, b + b_length) have a byte in common.
inline bool overlap(std::uint64_t a, std::uint64_t a_length, std::uint64_t b, std::uint64_t b_length) {
	return a_length && b_length && a < b + b_length && b < a + a_length;
}

inline bool overlap(const queues::Segment& a, const queues::Segment& b) {
	return overlap(a.address, a.length, b.address, b.length);
}

// True if one of the segments has a byte in [address, address + length).
inline bool lie_in(const std::vector<queues::Segment>& segments, std::uint64_t address, std::uint64_t length) {
	return std::ranges::any_of(
		segments, [&](const queues::Segment& each) { return overlap(each.address, each.length, address, length); });
}

inline bool share_bytes(const std::vector<queues::Segment>& a, const std::vector<queues::Segment>& b) {
	return std::ranges::any_of(a, [&](const queues::Segment& each) { return lie_in(b, each.address, each.length); });
}

inline std::uint64_t sum_of(const std::vector<queues::Segment>& segments) {
	std::uint64_t sum = 0;
	for (const queues::Segment& segment : segments) sum += segment.length;
	return sum;
}

}  // namespace verbena::rules
