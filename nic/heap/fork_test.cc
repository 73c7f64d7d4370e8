// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <sys/syscall.h>
#include <thread>
#include <vector>

#include "nic/heap/test_heap.h"

namespace verbena::heap {
namespace {

// Two processes that take turns.
class Turns {
public:
	Turns() {
		if (pipe(to_child_) != 0 || pipe(to_parent_) != 0) std::abort();
	}
	~Turns() {
		for (const int end : {to_child_[0], to_child_[1], to_parent_[0], to_parent_[1]}) close(end);
	}
	void wake_child() { put(to_child_[1]); }
	void wake_parent() { put(to_parent_[1]); }
	void wait_for_parent() { get(to_child_[0]); }
	void wait_for_child() { get(to_parent_[0]); }

private:
	static void put(int end) {
		if (write(end, "", 1) != 1) std::abort();
	}
	static void get(int end) {
		char byte;
		if (read(end, &byte, 1) != 1) std::abort();
	}
	int to_child_[2], to_parent_[2];
};

// Forks, lets the parent store 'p' and the child 'c' in the first bytes of each page, and expects
// that the child sees 'a' until it stores, and that neither sees what the other stored.
void expect_private(char* memory, std::size_t pages) {
	Turns turns;
	for (std::size_t i = 0; i < pages; ++i) memory[i * page_bytes] = 'a';
	const pid_t child = fork();
	if (child == 0) {
		alarm(20);
		turns.wait_for_parent();
		for (std::size_t i = 0; i < pages; ++i) {
			if (memory[i * page_bytes] != 'a') _exit(1);
			memory[i * page_bytes] = 'c';
		}
		turns.wake_parent();
		turns.wait_for_parent();
		for (std::size_t i = 0; i < pages; ++i)
			if (memory[i * page_bytes] != 'c') _exit(2);
		_exit(0);
	}
	for (std::size_t i = 0; i < pages; ++i) memory[i * page_bytes] = 'p';
	turns.wake_child();
	turns.wait_for_child();
	for (std::size_t i = 0; i < pages; ++i) ASSERT_EQ(memory[i * page_bytes], 'p');
	turns.wake_child();
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
}

TEST(Fork, TheChildSeesTheMemoryAsItWasAndNeitherSeesTheOthersStores) {
	char* const memory = block(100 * page_bytes);
	expect_private(memory, 100);
	std::free(memory);
}

TEST(Fork, MovedPagesAreCopiedToo) {
	char* const memory = block(10 * page_bytes);
	ASSERT_TRUE(move(memory + 2 * page_bytes, 3 * page_bytes));
	ASSERT_TRUE(move(memory + 3 * page_bytes, page_bytes));
	expect_private(memory, 10);
	EXPECT_TRUE(find(memory + 3 * page_bytes, page_bytes));
	std::free(memory);
}

TEST(Fork, TheParentsMemoryStaysWhereItWas) {
	char* const memory = block(page_bytes);
	const auto place = find(memory, page_bytes);
	EXPECT_TRUE(holds_in_child([] { return true; }));
	EXPECT_EQ(find(memory, page_bytes), place);
	memory[0] = 'x';
	EXPECT_EQ(read_file(*place, 1), "x");
	std::free(memory);
}

TEST(Fork, TheChildHasNoHeapAndNoDescriptorOfIt) {
	char* const memory = block(2 * page_bytes);
	ASSERT_TRUE(move(memory, page_bytes));
	const int first = find(memory + page_bytes, 1)->descriptor, second = find(memory, 1)->descriptor;
	EXPECT_TRUE(holds_in_child([&] {
		void* const fresh = std::aligned_alloc(page_bytes, page_bytes);
		return !enabled() && !find(memory, 1) && !move(memory, 1) && fresh != nullptr && !contains(fresh) &&
			fcntl(first, F_GETFD) == -1 && fcntl(second, F_GETFD) == -1;
	}));
	EXPECT_TRUE(enabled());
	std::free(memory);
}

TEST(Fork, TheChildHasNoMappingOfTheFiles) {
	char* const memory = block(2 * page_bytes);
	ASSERT_TRUE(move(memory, page_bytes));
	EXPECT_TRUE(holds_in_child([&] {
		std::FILE* const maps = std::fopen("/proc/self/maps", "r");
		char line[512];
		while (std::fgets(line, sizeof line, maps) != nullptr)
			if (std::strstr(line, "verbena-heap") != nullptr) return false;
		return true;
	}));
	std::free(memory);
}

TEST(Fork, TheChildCanFreeResizeAndClearWhatItInherited) {
	char* const memory = block(4 * page_bytes);
	char* const other = block(4 * page_bytes);
	std::memset(memory, 'a', 4 * page_bytes);
	std::memset(other, 'b', 4 * page_bytes);
	EXPECT_TRUE(holds_in_child([&] {
		if (madvise(other, page_bytes, MADV_DONTNEED) != 0 || other[0] != 0 || other[page_bytes] != 'b') return false;
		char* const larger = static_cast<char*>(std::realloc(memory, 10 * page_bytes));
		if (contains(larger) || larger[4 * page_bytes - 1] != 'a') return false;
		std::free(larger);
		std::free(other);
		return true;
	}));
	EXPECT_EQ(memory[0], 'a');
	EXPECT_EQ(other[0], 'b');
	std::free(memory);
	std::free(other);
}

TEST(Fork, AGrandchildHasCopiesOfItsOwn) {
	char* const memory = block(page_bytes);
	memory[0] = 'a';
	EXPECT_TRUE(holds_in_child([&] {
		memory[0] = 'b';
		const bool good = holds_in_child([&] { return memory[0] == 'b' && (memory[0] = 'c'); });
		return good && memory[0] == 'b';
	}));
	EXPECT_EQ(memory[0], 'a');
	std::free(memory);
}

TEST(Fork, MemoryBeyondTheFirst64MiBIsMappedCopyOnWrite) {
	constexpr std::size_t bytes = 80 << 20;
	char* const memory = block(bytes);
	std::memset(memory, 'a', bytes);
	ASSERT_TRUE(move(memory + bytes - 2 * page_bytes, page_bytes));
	EXPECT_TRUE(holds_in_child([&] {
		for (std::size_t at = 0; at < bytes; at += page_bytes)
			if (memory[at] != 'a') return false;
		std::memset(memory, 'c', bytes);
		std::free(memory);
		return true;
	}));
	for (std::size_t at = 0; at < bytes; at += page_bytes) ASSERT_EQ(memory[at], 'a');
	std::free(memory);
}

TEST(Fork, TheBlocksBeforeTheLimitAreCopiedAndTheOthersMapped) {
	constexpr std::size_t bytes = 20 << 20;
	std::vector<char*> blocks;
	for (int i = 0; i < 5; ++i) {
		// The last page has no memory, so the blocks do not join.
		blocks.push_back(block(bytes + page_bytes));
		std::memset(blocks.back(), 'a' + i, bytes);
	}
	ASSERT_TRUE(move(blocks[1] + 5 * page_bytes, 2 * page_bytes));
	EXPECT_TRUE(holds_in_child([&] {
		for (int i = 0; i < 5; ++i) {
			for (std::size_t at = 0; at < bytes; at += page_bytes)
				if (blocks[i][at] != 'a' + i) return false;
			if (blocks[i][bytes] != 0) return false;
			std::memset(blocks[i], 'c', bytes + page_bytes);
			std::free(blocks[i]);
		}
		return true;
	}));
	for (int i = 0; i < 5; ++i) {
		for (std::size_t at = 0; at < bytes; at += page_bytes) ASSERT_EQ(blocks[i][at], 'a' + i);
		std::free(blocks[i]);
	}
}

TEST(Fork, PagesThatShallNotForkAreNotInTheChild) {
	char* const memory = block(3 * page_bytes);
	std::memset(memory, 'a', 3 * page_bytes);
	ASSERT_EQ(madvise(memory + page_bytes, page_bytes, MADV_DONTFORK), 0);
	ASSERT_TRUE(move(memory, 3 * page_bytes));
	const auto reads = [&](std::size_t at) {
		return holds_in_child([&] {
			signal(SIGSEGV, [](int) { _exit(9); });
			return memory[at] == 'a';
		});
	};
	EXPECT_TRUE(reads(0));
	EXPECT_FALSE(reads(page_bytes));
	EXPECT_TRUE(reads(2 * page_bytes));
	ASSERT_EQ(madvise(memory + page_bytes, page_bytes, MADV_DOFORK), 0);
	EXPECT_TRUE(reads(page_bytes));
	std::free(memory);
}

TEST(Fork, AChildWithoutForkHandlersDoesNotChangeTheHeap) {
	char* const memory = block(page_bytes);
	memory[0] = 'a';
	const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (child == 0) {
		const bool read = memory[0] == 'a';
		const bool found = find(memory, 1).has_value();
		std::free(memory);
		void* const fresh = std::aligned_alloc(page_bytes, page_bytes);
		_exit(read && !contains(fresh) && !found ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(memory[0], 'a');
	EXPECT_TRUE(find(memory, 1));
	std::free(memory);
}

TEST(Fork, ForksAmongThreadsThatAllocateHaveAConsistentHeap) {
	std::atomic<bool> stop = false;
	std::thread other([&] {
		while (!stop) {
			char* const memory = block(5 * page_bytes);
			std::memset(memory, 'x', 5 * page_bytes);
			std::free(memory);
		}
	});
	char* const memory = block(page_bytes);
	for (int i = 0; i < 200; ++i) {
		memory[0] = static_cast<char>(i);
		ASSERT_TRUE(holds_in_child([&] {
			const bool same = memory[0] == static_cast<char>(i);
			std::free(memory);
			return same;
		}));
	}
	stop = true;
	other.join();
	std::free(memory);
}

}  // namespace
}  // namespace verbena::heap
