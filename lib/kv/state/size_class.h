// SPDX-License-Identifier: Apache-2.0
// Size classes: the sizes of an arena's blocks, and of the runs of pages that are cut into them.
//
// There are eight classes for each doubling, from 64 bytes to 32 KiB, so at most an eighth of a
// block is unused. A run has from 8 to 64 blocks.
//
// Threads: any; constants and pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/kv/state/extents.h"

namespace verbena::kv {

inline constexpr std::size_t block_min = 64, block_max = 32 << 10;

// The smallest class whose blocks have this many bytes; `bytes` is at most block_max.
constexpr std::uint32_t class_of(std::size_t bytes) {
	if (bytes <= block_min) return 0;
	const auto doublings = static_cast<std::uint32_t>(std::bit_width(bytes - 1)) - 1;
	return (doublings - 6) * 8 + static_cast<std::uint32_t>((bytes - 1) >> (doublings - 3)) - 7;
}
inline constexpr std::uint32_t class_count = class_of(block_max) + 1;

constexpr std::uint32_t class_bytes(std::uint32_t size_class) {
	if (size_class == 0) return block_min;
	return (8 + (size_class - 1) % 8 + 1) << ((size_class - 1) / 8 + 3);
}

// A run of one class.
struct RunShape {
	std::uint32_t block_bytes = 0;
	std::uint32_t inverse = 0;  // 2^32 / block_bytes, rounded up
	std::uint16_t pages = 0;
	std::uint8_t blocks = 0;
	// The index of the block that begins at this offset, without a division.
	std::uint32_t index_at(std::uint32_t offset) const {
		return static_cast<std::uint32_t>(std::uint64_t{offset} * inverse >> 32);
	}
	// The bits of all blocks.
	std::uint64_t all() const { return blocks == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << blocks) - 1; }
};

// The shortest run with enough blocks of which at most 1/64 is left over, or the one of which least
// is left over.
constexpr RunShape run_shape(std::uint32_t size_class) {
	const std::uint32_t bytes = class_bytes(size_class);
	const std::uint32_t blocks_min = bytes <= 1024 ? 32 : bytes <= 4096 ? 16 : 8;
	RunShape best;
	double best_part = 1;
	for (std::uint32_t pages = 1; pages <= 2 * blocks_min * bytes / Extents::page_bytes + 1; ++pages) {
		const std::uint32_t all = pages * Extents::page_bytes, blocks = std::min(all / bytes, 64u);
		if (blocks < blocks_min) continue;
		const double part = static_cast<double>(all - blocks * bytes) / all;
		if (part >= best_part) continue;
		best = {.block_bytes = bytes,
			.inverse = static_cast<std::uint32_t>((std::uint64_t{1} << 32) / bytes + 1),
			.pages = static_cast<std::uint16_t>(pages),
			.blocks = static_cast<std::uint8_t>(blocks)};
		best_part = part;
		if (part <= 1.0 / 64) break;
	}
	return best;
}

inline constexpr std::array<RunShape, class_count> run_shapes = [] {
	std::array<RunShape, class_count> shapes{};
	for (std::uint32_t i = 0; i < class_count; ++i) shapes[i] = run_shape(i);
	return shapes;
}();

}  // namespace verbena::kv
