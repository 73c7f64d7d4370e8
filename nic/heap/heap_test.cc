// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/heap.h"

#include <cerrno>
#include <cstdint>
#include <malloc.h>
#include <new>
#include <thread>
#include <vector>

#include "nic/heap/test_heap.h"

namespace verbena::heap {
namespace {

// Sanitizers have an operator new of their own, and stop the process where the C library refuses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// Before the first allocation, which reads it.
[[gnu::constructor(101)]] void switch_on() { setenv("VERBENA_HEAP", "1", 1); }

TEST(Heap, APageAlignedBlockLiesInAFileThatPeersCanMap) {
	char* const memory = block(3 * page_bytes);
	std::strcpy(memory + 5000, "hello");
	const auto place = find(memory + 5000, 6);
	ASSERT_TRUE(place);
	EXPECT_EQ(read_file(*place, 5), "hello");
	struct stat facts;
	ASSERT_EQ(fstat(place->descriptor, &facts), 0);
	EXPECT_EQ(place->file, facts.st_ino);
	const void* const address = address_of(memory);
	std::free(memory);
	EXPECT_FALSE(find(address, 6));
}

TEST(Heap, ARangeIsFoundOnlyIfItIsWhollyInOneBlock) {
	char* const first = block(2 * page_bytes);
	char* const second = block(2 * page_bytes);
	EXPECT_TRUE(find(first, 2 * page_bytes));
	EXPECT_TRUE(find(first + 1, 0));
	EXPECT_TRUE(find(first + 2 * page_bytes - 1, 1));
	EXPECT_FALSE(find(first, 2 * page_bytes + 1));
	EXPECT_FALSE(find(first, SIZE_MAX));
	EXPECT_FALSE(find(&errno, 4));
	EXPECT_FALSE(find(nullptr, 4));
	EXPECT_FALSE(find(nullptr, SIZE_MAX));
	std::free(first);
	EXPECT_TRUE(find(second, 1));
	std::free(second);
}

TEST(Heap, EachFunctionServesBlocksOfAPageAndMore) {
	const std::size_t page = page_bytes;
	for (void* memory : {memalign(page, page), aligned_alloc(page, 5001), valloc(page), pvalloc(1), pvalloc(page + 1),
			 memalign(page << 9, page)}) {
		EXPECT_TRUE(contains(memory));
		EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % page, 0u);
		std::free(memory);
	}
	EXPECT_TRUE(find(memalign(page, 5001), 8192)) << "the size is rounded up to pages";
}

TEST(Heap, SmallerAndOddRequestsAreTheCLibrarys) {
	void* memory = nullptr;
	EXPECT_EQ(posix_memalign(&memory, 4096, 4095), 0);
	EXPECT_FALSE(contains(memory));
	std::free(memory);
	EXPECT_EQ(posix_memalign(&memory, 2048, 1 << 20), 0);
	EXPECT_FALSE(contains(memory));
	std::free(memory);
	EXPECT_EQ(posix_memalign(&memory, 4096, 0), 0);
	std::free(memory);
	memory = std::malloc(1 << 20);
	EXPECT_FALSE(contains(memory));
	std::free(memory);
	std::free(nullptr);
	if (sanitized) return;
	memory = memalign(5000, 8192);
	EXPECT_FALSE(contains(memory));
	std::free(memory);
}

TEST(Heap, ErrorsAreThoseOfTheManualPage) {
	if (sanitized) return;
	void* memory = &memory;
	void* const before = memory;
	errno = 0;
	volatile std::size_t alignment = 6000, huge = SIZE_MAX - 8192;
	EXPECT_EQ(posix_memalign(&memory, alignment, 8192), EINVAL);
	EXPECT_EQ(posix_memalign(&memory, 0, 8192), EINVAL);
	EXPECT_EQ(posix_memalign(&memory, 4096, huge), ENOMEM);
	EXPECT_EQ(memory, before);
	EXPECT_EQ(memalign(4096, huge), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	errno = 0;
	EXPECT_EQ(pvalloc(huge + 8000), nullptr);
	EXPECT_EQ(errno, ENOMEM);
}

TEST(Heap, ASuccessLeavesErrnoAlone) {
	errno = 77;
	char* const memory = block(page_bytes);
	EXPECT_EQ(errno, 77);
	std::free(memory);
	EXPECT_EQ(errno, 77);
}

TEST(Heap, HugeAlignmentsAreHonoured) {
	for (std::size_t alignment = page_bytes; alignment <= std::size_t{1} << 30; alignment *= 2) {
		char* const memory = block(page_bytes, alignment);
		EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
		*memory = 1;
		std::free(memory);
	}
}

TEST(Heap, OverAlignedNewAndDeleteWork) {
	struct alignas(page_bytes) Page {
		char bytes[page_bytes];
	};
	auto* const page = new Page;
	EXPECT_EQ(contains(page), !sanitized);
	delete page;
}

TEST(Heap, AFreedBlockGivesItsMemoryBackAndIsFreshAgain) {
	constexpr std::size_t bytes = 8 << 20;
	char* memory = block(bytes);
	const int descriptor = find(memory, 1)->descriptor;
	const std::size_t before = file_memory(descriptor);
	std::memset(memory, 'x', bytes);
	EXPECT_EQ(file_memory(descriptor), before + bytes);
	std::free(memory);
	EXPECT_EQ(file_memory(descriptor), before);
	memory = block(bytes);
	for (std::size_t at = 0; at < bytes; at += 511) ASSERT_EQ(memory[at], 0);
	std::free(memory);
}

TEST(Heap, ABlockThatItsProgramMadeReadOnlyCanBeFreedAndUsedAgain) {
	char* memory = block(page_bytes);
	mprotect(memory, page_bytes, PROT_NONE);
	std::free(memory);
	memory = block(page_bytes);
	*memory = 1;
	std::free(memory);
}

TEST(Heap, ReallocKeepsTheContents) {
	char* memory = block(2 * page_bytes);
	std::strcpy(memory + 5000, "kept");
	char* larger = static_cast<char*>(std::realloc(memory, 100 * page_bytes));
	EXPECT_TRUE(contains(larger));
	EXPECT_STREQ(larger + 5000, "kept");
	char* const smaller = static_cast<char*>(std::realloc(larger, 5005));
	EXPECT_STREQ(smaller + 5000, "kept");
	EXPECT_EQ(malloc_usable_size(smaller), 2 * page_bytes);
	EXPECT_FALSE(find(smaller, 3 * page_bytes));
	char* const longer = static_cast<char*>(reallocarray(smaller, 3, page_bytes));
	EXPECT_STREQ(longer + 5000, "kept");
	volatile std::size_t many = SIZE_MAX / 2;
	void* const address = longer;
	EXPECT_EQ(reallocarray(const_cast<void*>(address_of(longer)), many, 4), nullptr);
	EXPECT_EQ(errno, ENOMEM);
	volatile std::size_t none = 0;
	EXPECT_EQ(std::realloc(address, none), nullptr);
}

TEST(Heap, TheUsableSizeIsThatOfWholePages) {
	char* const memory = block(page_bytes + 1);
	EXPECT_EQ(malloc_usable_size(memory), 2 * page_bytes);
	std::memset(memory, 1, malloc_usable_size(memory));
	std::free(memory);
}

TEST(Heap, PagesThatAreNotNeededReadAsZero) {
	for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
		char* const memory = block(4 * page_bytes);
		std::memset(memory, 'x', 4 * page_bytes);
		EXPECT_EQ(madvise(memory + page_bytes, page_bytes + 1, advice), 0);
		EXPECT_EQ(memory[page_bytes - 1], 'x');
		EXPECT_EQ(memory[page_bytes], 0);
		EXPECT_EQ(memory[3 * page_bytes - 1], 0);
		EXPECT_EQ(memory[3 * page_bytes], 'x');
		std::free(memory);
	}
}

TEST(Heap, OtherAdviceGoesToTheKernel) {
	char* const memory = block(page_bytes);
	EXPECT_EQ(madvise(memory + 1, page_bytes, MADV_DONTNEED), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(madvise(memory, page_bytes, 12345), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(madvise(memory, page_bytes, MADV_WILLNEED), 0);
	std::free(memory);
	void* const other = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*static_cast<char*>(other) = 1;
	EXPECT_EQ(madvise(other, page_bytes, MADV_DONTNEED), 0);
	EXPECT_EQ(*static_cast<char*>(other), 0);
	munmap(other, page_bytes);
}

TEST(Heap, ABlockMayBeFreedByAnotherThread) {
	char* const memory = block(page_bytes);
	std::thread([memory] { std::free(memory); }).join();
	EXPECT_FALSE(find(address_of(memory), 1));
}

TEST(HeapDeathTest, FreeingWhatIsNoBlockStopsTheProcess) {
	char* const memory = block(2 * page_bytes);
	char* volatile inside = memory + page_bytes;
	EXPECT_DEATH(std::free(inside), "no block of the heap begins");
	inside = memory;
	std::free(memory);
	EXPECT_DEATH(std::free(inside), "no block of the heap begins");
}

// Leaves the process with 0 if all of it holds.
[[noreturn]] void lose_the_descriptor() {
	char* const memory = block(4 * page_bytes);
	std::memset(memory, 'x', 4 * page_bytes);
	const Place place = *find(memory, 1);
	close(place.descriptor);
	const int other = memfd_create("other", 0);
	bool good = other == place.descriptor && ftruncate(other, 1 << 20) == 0 && pwrite(other, "mine", 4, 0) == 4;
	good = good && !move(memory, 1);
	memory[0] = 'y';
	good = good && madvise(memory, page_bytes, MADV_DONTNEED) == 0 && memory[0] == 0;
	good = good && holds_in_child([&] { return memory[page_bytes] == 'x' && (memory[page_bytes] = 'c'); });
	good = good && memory[page_bytes] == 'x';
	std::free(memory);
	std::free(block(page_bytes));
	char text[5] = "";
	good = good && pread(other, text, 4, 0) == 4 && std::strcmp(text, "mine") == 0;
	std::exit(good ? 0 : 1);
}

TEST(HeapDeathTest, BlocksStillWorkIfTheProgramClosesTheFileAndOpensAnother) {
	// A new process, because a fork's child has no heap.
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_EXIT(lose_the_descriptor(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbena::heap
