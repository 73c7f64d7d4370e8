// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/digest.h"

#include <algorithm>
#include <cstring>

#include "nic/memory/guarded_copy.h"

namespace verbena::rules {
namespace {

constexpr std::uint64_t part_max = 32 << 10;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
	const auto product = static_cast<unsigned __int128>(a) * b;
	return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

bool add(std::uint64_t& digest, std::uint64_t address, std::uint64_t length) {
	while (length) {
		std::uint64_t words[64] = {};
		const std::uint64_t size = std::min<std::uint64_t>(length, sizeof words);
		if (!memory::guarded_copy(words, reinterpret_cast<const void*>(address), size)) return false;
		for (const std::uint64_t word : words) digest = mix(digest ^ word, 0x9e3779b97f4a7c15) + 1;
		address += size;
		length -= size;
	}
	return true;
}

}  // namespace

std::optional<std::uint64_t> digest_of(std::span<const queues::Segment> segments) {
	std::uint64_t digest = 0x2545f4914f6cdd1d;
	for (const queues::Segment& segment : segments) {
		if (segment.length <= 2 * part_max) {
			if (!add(digest, segment.address, segment.length)) return std::nullopt;
		} else if (!add(digest, segment.address, part_max) ||
			!add(digest, segment.address + segment.length - part_max, part_max)) {
			return std::nullopt;
		}
	}
	return digest;
}

}  // namespace verbena::rules
