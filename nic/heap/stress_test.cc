// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "nic/heap/test_heap.h"

namespace verbena::heap {
namespace {

// Each block holds its owner's number in the first and last word of each page.
struct Block {
	std::uint64_t* words;
	std::size_t pages;
};

void mark(const Block& block, std::uint64_t value) {
	for (std::size_t page = 0; page < block.pages; ++page)
		block.words[page * 512] = block.words[page * 512 + 511] = value;
}

bool is_marked(const Block& block, std::uint64_t value) {
	for (std::size_t page = 0; page < block.pages; ++page)
		if (block.words[page * 512] != value || block.words[page * 512 + 511] != value) return false;
	return true;
}

TEST(HeapStress, SixteenThreadsAllocateMoveAndFreeEachOthersBlocks) {
	constexpr std::size_t threads = 16, rounds = 1500;
	std::atomic<std::uint64_t*> exchange[64] = {};
	std::atomic<int> wrong = 0;
	std::vector<std::thread> all;
	for (std::size_t id = 1; id <= threads; ++id)
		all.emplace_back([&, id] {
			std::mt19937 random(static_cast<unsigned>(id));
			std::vector<Block> mine;
			for (std::size_t round = 0; round < rounds; ++round) {
				const std::size_t pages = 1 + random() % 20;
				void* memory = nullptr;
				if (posix_memalign(&memory, page_bytes << random() % 5, pages * page_bytes) != 0) std::abort();
				const Block fresh{static_cast<std::uint64_t*>(memory), pages};
				if (fresh.words[0] != 0 || !find(memory, pages * page_bytes)) ++wrong;
				mark(fresh, id);
				mine.push_back(fresh);
				if (mine.size() < 8) continue;
				const std::size_t at = random() % mine.size();
				const Block old = mine[at];
				mine.erase(mine.begin() + static_cast<long>(at));
				if (!is_marked(old, id)) ++wrong;
				if (random() % 16 == 0) move(old.words, old.pages * page_bytes);
				if (!is_marked(old, id)) ++wrong;
				// Another thread frees it.
				std::free(exchange[random() % 64].exchange(old.words));
			}
			for (const Block& block : mine) {
				if (!is_marked(block, id)) ++wrong;
				std::free(block.words);
			}
		});
	for (std::thread& thread : all) thread.join();
	for (auto& left : exchange) std::free(left.load());
	EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace verbena::heap
