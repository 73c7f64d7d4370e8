// SPDX-License-Identifier: Apache-2.0
// A channel in its steady state allocates nothing on the heap. This file replaces the program's
// operator new, to count.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "lib/channel/rc_fixture.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes) {
	allocations.fetch_add(1, std::memory_order_relaxed);
	void* const block = std::malloc(bytes);
	if (block == nullptr) throw std::bad_alloc();
	return block;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
// The address sanitizer replaces the same operators, so there is nothing to count under it.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace verbena::channel {
namespace {

using async::Task;

// Echoes a message of `size` bytes `times` times, after as many to warm up. Returns the allocations
// that this took.
std::uint64_t allocations_of_echoes(std::size_t size, int times) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open();
	const auto [a, b] = transports.connect();
	loop.spawn(testing_tools::echo(*b));
	std::uint64_t taken = 0;
	loop.complete([](Channel& channel, std::size_t size, int times, std::uint64_t& taken) -> Task<void> {
		const std::vector<std::byte> message(size);
		for (const bool steady : {false, true}) {
			const std::uint64_t before = allocations.load();
			for (int i = 0; i < times; ++i) {
				co_await channel.send(message);
				co_await channel.receive();
			}
			if (steady) taken = allocations.load() - before;
		}
	}(*a, size, times, taken));
	loop.abandon_spawned();
	return taken;
}

TEST(SteadyState, OfSmallMessagesInlineAllocatesNothing) { EXPECT_EQ(allocations_of_echoes(64, 1000), 0u); }

TEST(SteadyState, OfMessagesFromUnitsAllocatesNothing) { EXPECT_EQ(allocations_of_echoes(1000, 1000), 0u); }

TEST(SteadyState, OfFetchedMessagesAllocatesNothing) { EXPECT_EQ(allocations_of_echoes(100'000, 100), 0u); }

}  // namespace
}  // namespace verbena::channel
