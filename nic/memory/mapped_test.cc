// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/mapped.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace verbena::memory {
namespace {

constexpr std::uint64_t page_bytes = 4096;

struct Pages {
	explicit Pages(std::uint64_t count)
		: count(count),
		  at(mmap(nullptr, count * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
	~Pages() { munmap(at, count * page_bytes); }
	std::uint64_t address(std::uint64_t i) const { return reinterpret_cast<std::uint64_t>(at) + i * page_bytes; }
	const std::uint64_t count;
	void* const at;
};

TEST(Mapped, MemoryThatIsMappedHasNoUnmappedPage) {
	const Pages pages(9);
	EXPECT_FALSE(first_unmapped(pages.address(0), pages.address(9)));
	EXPECT_FALSE(first_unmapped(pages.address(2) + 1, pages.address(2) + 2));
	EXPECT_FALSE(first_unmapped(0, 0));
}

TEST(Mapped, TheFirstUnmappedPageIsFoundWhereverItIs) {
	for (std::uint64_t hole = 0; hole < 9; ++hole) {
		const Pages pages(9);
		munmap(reinterpret_cast<void*>(pages.address(hole)), page_bytes);
		EXPECT_EQ(first_unmapped(pages.address(0) + 5, pages.address(9) - 5), pages.address(hole)) << hole;
		// Keeps the hole for the destructor, which unmaps all pages.
		mmap(reinterpret_cast<void*>(pages.address(hole)), page_bytes, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
}

TEST(Mapped, ThePageOfNullIsUnmapped) { EXPECT_EQ(first_unmapped(8, 4096 * 3), 0u); }

}  // namespace
}  // namespace verbena::memory
