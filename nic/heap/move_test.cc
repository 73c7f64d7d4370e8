// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "nic/heap/moved.h"
#include "nic/heap/test_heap.h"

namespace verbena::heap {
namespace {

TEST(Move, AMovedRangeKeepsItsContentsAndHasAnotherFile) {
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
	EXPECT_EQ(read_file(*moved, 2), "b" + std::string(1, memory[page_bytes + 11]));
	EXPECT_FALSE(find(memory, 4 * page_bytes)) << "it spans two files";
	EXPECT_EQ(find(memory + 2 * page_bytes, page_bytes)->file, before->file);
	std::free(memory);
}

TEST(Move, AWriterToTheOldFileNoLongerReachesTheMemory) {
	char* const memory = block(page_bytes);
	memory[0] = 'a';
	const auto place = find(memory, page_bytes);
	void* const mapped = mmap(
		nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, place->descriptor, static_cast<off_t>(place->offset));
	auto* const peer = static_cast<volatile char*>(mapped);
	EXPECT_EQ(peer[0], 'a');
	peer[0] = 'b';
	EXPECT_EQ(memory[0], 'b');
	ASSERT_TRUE(move(memory, page_bytes));
	peer[0] = 'c';
	EXPECT_EQ(memory[0], 'b');
	std::free(memory);
	char* const next = block(page_bytes);
	EXPECT_NE(find(next, page_bytes), place) << "the stalled peer can still write there";
	std::free(next);
	munmap(mapped, page_bytes);
}

TEST(Move, MemoryOfMovedPagesIsGivenBackWhenTheBlockIsFreed) {
	char* const memory = block(8 * page_bytes);
	std::memset(memory, 'a', 8 * page_bytes);
	const auto whole = find(memory, page_bytes);
	const std::size_t before = file_memory(whole->descriptor);
	ASSERT_TRUE(move(memory + page_bytes, 4 * page_bytes));
	const auto moved = find(memory + page_bytes, page_bytes);
	EXPECT_EQ(file_memory(whole->descriptor), before - 4 * page_bytes);
	EXPECT_EQ(file_memory(moved->descriptor), 4 * page_bytes);
	std::free(memory);
	EXPECT_EQ(file_memory(whole->descriptor), before - 8 * page_bytes);
	EXPECT_EQ(fcntl(moved->descriptor, F_GETFD), -1);
}

TEST(Move, ARangeCanMoveAgainAndInParts) {
	char* const memory = block(8 * page_bytes);
	for (std::size_t i = 0; i < 8; ++i) std::memset(memory + i * page_bytes, 'a' + static_cast<int>(i), page_bytes);
	ASSERT_TRUE(move(memory, 8 * page_bytes));
	const auto first = find(memory, 8 * page_bytes);
	ASSERT_TRUE(move(memory + 3 * page_bytes, 2 * page_bytes));
	ASSERT_TRUE(move(memory + 3 * page_bytes + 5, 1));
	EXPECT_EQ(find(memory, page_bytes)->file, first->file);
	EXPECT_EQ(find(memory + 6 * page_bytes, page_bytes)->offset, 6 * page_bytes);
	EXPECT_FALSE(find(memory + 3 * page_bytes, 2 * page_bytes));
	ASSERT_TRUE(move(memory, 8 * page_bytes));
	ASSERT_TRUE(find(memory, 8 * page_bytes));
	for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(memory[i * page_bytes + 7], 'a' + static_cast<int>(i));
	EXPECT_EQ(read_file(*find(memory + 4 * page_bytes, page_bytes), 1), "e");
	EXPECT_EQ(fcntl(first->descriptor, F_GETFD), -1) << "no page lies in this file";
	std::free(memory);
}

TEST(Move, PagesThatWereNeverUsedGetNoMemory) {
	char* const memory = block(1000 * page_bytes);
	memory[500 * page_bytes] = 'a';
	ASSERT_TRUE(move(memory, 1000 * page_bytes));
	EXPECT_EQ(file_memory(find(memory, 1)->descriptor), page_bytes);
	EXPECT_EQ(memory[500 * page_bytes], 'a');
	std::free(memory);
}

TEST(Move, MemoryThatIsNotTheHeapsCannotMove) {
	char* const memory = block(page_bytes);
	EXPECT_FALSE(move(memory, page_bytes + 1));
	EXPECT_FALSE(move(&memory, 1));
	EXPECT_FALSE(move(nullptr, 1));
	std::free(memory);
	EXPECT_FALSE(move(address_of(memory), 1));
}

TEST(Move, PagesThatAreNotNeededReadAsZeroAfterAMoveToo) {
	char* const memory = block(3 * page_bytes);
	std::memset(memory, 'a', 3 * page_bytes);
	ASSERT_TRUE(move(memory + page_bytes, page_bytes));
	EXPECT_EQ(madvise(memory, 3 * page_bytes, MADV_DONTNEED), 0);
	EXPECT_EQ(std::string(memory, 3 * page_bytes), std::string(3 * page_bytes, '\0'));
	std::free(memory);
}

TEST(Move, ItIsRefusedWhenThereAreTooMany) {
	char* const memory = block(2 * Moved::entries_max * page_bytes);
	std::size_t moved = 0;
	while (moved < 2 * Moved::entries_max && move(memory + moved * page_bytes, 1)) ++moved;
	EXPECT_GE(moved, Moved::entries_max - 2);
	EXPECT_LT(moved, Moved::entries_max);
	memory[(moved + 1) * page_bytes] = 'a';
	EXPECT_EQ(memory[(moved + 1) * page_bytes], 'a');
	std::free(memory);
	char* const next = block(page_bytes);
	EXPECT_TRUE(move(next, 1));
	std::free(next);
}

std::atomic<int> faults_waited = 0;

void on_fault(int, siginfo_t* info, void*) {
	if (!wait_for_move(info->si_addr)) _exit(3);
	faults_waited.fetch_add(1);
}

TEST(Move, NoStoreOfAnotherThreadIsLost) {
	struct sigaction action{}, before;
	action.sa_sigaction = on_fault;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, &before);
	constexpr std::size_t pages = 64, writers = 3;
	auto* const counters = reinterpret_cast<std::atomic<std::uint64_t>*>(block(pages * page_bytes));
	constexpr std::size_t stride = page_bytes / sizeof *counters;
	std::atomic<bool> stop = false;
	std::vector<std::uint64_t> rounds(writers);
	std::vector<std::thread> threads;
	for (std::size_t i = 0; i < writers; ++i)
		threads.emplace_back([&, i] {
			// Each writer has its own word in each page.
			while (!stop.load(std::memory_order_relaxed) || rounds[i] == 0) {
				++rounds[i];
				for (std::size_t p = 0; p < pages; ++p) {
					std::atomic<std::uint64_t>& word = counters[p * stride + i];
					if (word.load(std::memory_order_relaxed) != rounds[i] - 1) _exit(4);
					word.store(rounds[i], std::memory_order_relaxed);
				}
			}
		});
	for (int i = 0; i < 300; ++i) EXPECT_TRUE(move(counters, pages * page_bytes));
	stop = true;
	for (std::thread& thread : threads) thread.join();
	for (std::size_t i = 0; i < writers; ++i)
		for (std::size_t p = 0; p < pages; ++p) EXPECT_EQ(counters[p * stride + i].load(), rounds[i]);
	RecordProperty("faults", faults_waited.load());
	std::free(counters);
	sigaction(SIGSEGV, &before, nullptr);
}

TEST(Move, AFaultThatNoMoveCausedIsNotTriedForever) {
	char* const memory = block(page_bytes);
	move(memory, page_bytes);
	wait_for_move(memory);
	EXPECT_FALSE(wait_for_move(memory));
	EXPECT_FALSE(wait_for_move(&memory));
	std::free(memory);
}

}  // namespace
}  // namespace verbena::heap
