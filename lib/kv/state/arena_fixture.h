// SPDX-License-Identifier: Apache-2.0
// For tests of the arena: memory from the heap, and a holder that knows what each block must
// contain.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/kv/state/arena.h"

namespace verbena::kv::testing_tools {

class HeapMemory final : public Arena::Memory {
public:
	std::byte* segment(std::size_t bytes) override {
		if (refuses) return nullptr;
		segments.emplace_back(static_cast<std::byte*>(std::aligned_alloc(Extents::page_bytes, bytes)));
		return segments.back().get();
	}
	bool refuses = false;

private:
	struct Free {
		void operator()(std::byte* at) const { std::free(at); }
	};

public:
	std::vector<std::unique_ptr<std::byte, Free>> segments;
};

// Blocks by a number of the test's choice. Each has a pattern, which depends on its number.
class Blocks final : public Arena::Holder {
public:
	explicit Blocks(std::size_t bytes_max) : arena(bytes_max, memory, *this) {}

	bool take(unsigned number, std::size_t bytes) {
		std::byte* const at = arena.take(bytes);
		if (at == nullptr) return false;
		fill(at, bytes, number);
		blocks[number] = {.at = at, .bytes = bytes};
		numbers[at] = number;
		return true;
	}
	void give_back(unsigned number) {
		const auto found = blocks.find(number);
		numbers.erase(found->second.at);
		arena.give_back(found->second.at, found->second.bytes);
		blocks.erase(found);
	}
	void take_all(std::size_t bytes, unsigned& number) {
		while (take(number, bytes)) ++number;
	}
	bool is_right(unsigned number) const {
		const Block& block = blocks.at(number);
		bool right = true;
		for_each_sample(block.at, block.bytes,
			[&](std::byte& each, std::size_t i) { right = right && each == pattern(number, i); });
		return right;
	}
	bool all_right() const {
		for (const auto& [number, block] : blocks)
			if (!is_right(number)) return false;
		return true;
	}

	// Arena::Holder
	bool movable(const std::byte* block) override {
		return !pinned.contains(numbers.at(const_cast<std::byte*>(block)));
	}
	void moved(std::byte* from, std::byte* to) override {
		const unsigned number = numbers.at(from);
		pinned_moved = pinned_moved || pinned.contains(number);
		numbers.erase(from);
		numbers[to] = number;
		blocks.at(number).at = to;
	}

	struct Block {
		std::byte* at;
		std::size_t bytes;
	};
	HeapMemory memory;
	Arena arena;
	std::unordered_map<unsigned, Block> blocks;
	std::unordered_map<std::byte*, unsigned> numbers;
	std::unordered_set<unsigned> pinned;
	bool pinned_moved = false;  // a block was moved that may not be

private:
	static std::byte pattern(unsigned number, std::size_t i) {
		return static_cast<std::byte>(number * 131 + i * 7 + 1);
	}
	// The whole of a short block, and parts of a long one.
	template <class Each> static void for_each_sample(std::byte* at, std::size_t bytes, Each each) {
		for (std::size_t i = 0; i < bytes; i += i < 32 || i + 32 >= bytes ? 1 : bytes / 8 + 1) each(at[i], i);
		if (bytes > 0) each(at[bytes - 1], bytes - 1);
	}
	static void fill(std::byte* at, std::size_t bytes, unsigned number) {
		for_each_sample(at, bytes, [&](std::byte& each, std::size_t i) { each = pattern(number, i); });
	}
};

}  // namespace verbena::kv::testing_tools
