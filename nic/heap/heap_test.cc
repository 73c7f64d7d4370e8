#include "nic/heap/heap.h"

#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "nic/heap/page_map.h"

namespace verbena::heap {
namespace {

// Set before the first allocation, which reads it.
[[gnu::constructor(101)]] void switch_on() { setenv("VERBENA_HEAP", "1", 1); }

char* block(std::size_t bytes, std::size_t alignment = page_bytes) {
	void* memory = nullptr;
	EXPECT_EQ(posix_memalign(&memory, alignment, bytes), 0);
	EXPECT_TRUE(contains(memory));
	return static_cast<char*>(memory);
}

// The bytes that a peer reads which opens the file behind a place.
std::string read_file(const Place& place, std::size_t bytes) {
	std::string text(bytes, '?');
	EXPECT_EQ(
		pread(place.descriptor, text.data(), bytes, static_cast<off_t>(place.offset)), static_cast<ssize_t>(bytes));
	return text;
}

TEST(Heap, APageAlignedBlockLiesInAFileThatPeersCanMap) {
	char* const memory = block(3 * page_bytes);
	std::strcpy(memory + 5000, "hello");
	const auto place = find(memory + 5000, 6);
	ASSERT_TRUE(place);
	EXPECT_EQ(read_file(*place, 5), "hello");
	struct stat facts;
	ASSERT_EQ(fstat(place->descriptor, &facts), 0);
	EXPECT_EQ(place->file, facts.st_ino);
	const auto freed = reinterpret_cast<std::uintptr_t>(memory);
	std::free(memory);
	EXPECT_FALSE(find(reinterpret_cast<void*>(freed), 6));
}

TEST(Heap, AMovedRangeKeepsItsContentsAndHasAnotherFile) {
	char* const memory = block(4 * page_bytes);
	std::memset(memory, 'a', 4 * page_bytes);
	const auto before = find(memory, 4 * page_bytes);
	ASSERT_TRUE(move(memory + page_bytes, page_bytes));
	const auto moved = find(memory + page_bytes + 10, 20);
	ASSERT_TRUE(before && moved);
	EXPECT_NE(moved->file, before->file);
	EXPECT_EQ(moved->offset, 10u);
	EXPECT_EQ(std::string(memory, 4 * page_bytes), std::string(4 * page_bytes, 'a'));
	memory[page_bytes + 10] = 'b';
	EXPECT_EQ(read_file(*moved, 2), "ba");
	EXPECT_FALSE(find(memory, 4 * page_bytes)) << "it spans two files";
	EXPECT_EQ(find(memory + 2 * page_bytes, page_bytes)->file, before->file);
	std::free(memory);
}

}  // namespace
}  // namespace verbena::heap
