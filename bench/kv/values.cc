// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/values.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace verbena::kvbench {

Values::Values(std::uint32_t size, std::uint32_t keys, std::uint64_t run, channel::MemoryPool* pool) : size_(size) {
	const std::size_t all = offset(keys - 1) + size;
	if (pool != nullptr) buffer_ = pool->take(all);
	if (!buffer_) heap_.resize(all);
	const std::span<std::byte> source = buffer_ ? buffer_.bytes() : std::span(heap_);
	std::mt19937_64 random(run);
	for (std::size_t at = 0; at < all; at += sizeof(std::uint64_t)) {
		const std::uint64_t word = random();
		std::memcpy(source.data() + at, &word, std::min(sizeof word, all - at));
	}
}

bool Values::looks_right(std::uint32_t key, kv::Bytes got) const {
	const kv::Bytes set = of(key);
	if (set.size() <= 4096 || got.size() != set.size()) return is_right(key, got);
	for (const std::size_t at : {std::size_t{0}, set.size() / 2, set.size() - 64})
		if (std::memcmp(got.data() + at, set.data() + at, 64) != 0) return false;
	return true;
}

bool Values::is_right(std::uint32_t key, kv::Bytes got) const {
	const kv::Bytes set = of(key);
	// memcmp, because std::ranges::equal compares byte by byte: 4 KiB would take longer than the
	// GET.
	return got.size() == set.size() && (set.empty() || std::memcmp(got.data(), set.data(), set.size()) == 0);
}

}  // namespace verbena::kvbench
