// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/guarded_copy.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

// The two variants; the tests run each one that this CPU supports.
extern "C" bool verbena_guarded_copy_avx2(void* to, const void* from, std::size_t n);
extern "C" bool verbena_guarded_copy_sse2(void* to, const void* from, std::size_t n);

namespace verbena::memory {
namespace {

constexpr std::size_t page = 4096;

std::byte* map_pages(std::size_t count) {
	void* at = mmap(nullptr, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_NE(at, MAP_FAILED);
	return static_cast<std::byte*>(at);
}

void on_fault(int signal_number, siginfo_t*, void* context) {
	if (!redirect_if_guarded(static_cast<ucontext_t*>(context))) signal(signal_number, SIG_DFL);
}

struct Variant {
	const char* name;
	detail::CopyFunction* copy;
	friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

std::vector<Variant> variants() {
	std::vector<Variant> all{{"sse2", verbena_guarded_copy_sse2}};
	if (__builtin_cpu_supports("avx2")) all.push_back({"avx2", verbena_guarded_copy_avx2});
	return all;
}

class GuardedCopy : public testing::TestWithParam<Variant> {
protected:
	void SetUp() override {
		struct sigaction action{};
		action.sa_sigaction = on_fault;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGSEGV, &action, &old_segv_);
		sigaction(SIGBUS, &action, &old_bus_);
	}
	void TearDown() override {
		sigaction(SIGSEGV, &old_segv_, nullptr);
		sigaction(SIGBUS, &old_bus_, nullptr);
	}
	bool copy(void* to, const void* from, std::size_t n) { return GetParam().copy(to, from, n); }

private:
	struct sigaction old_segv_, old_bus_;
};

INSTANTIATE_TEST_SUITE_P(EachVariant, GuardedCopy, testing::ValuesIn(variants()),
	[](const auto& each) { return std::string(each.param.name); });

// Whether [to, to + n) holds the source's first `copied` bytes and `old` after them.
bool is_prefix(const std::byte* to, const std::byte* source, std::size_t n, std::size_t copied, std::byte old) {
	return std::memcmp(to, source, copied) == 0 &&
		std::all_of(to + copied, to + n, [&](std::byte b) { return b == old; });
}

std::vector<std::byte> pattern(std::size_t n) {
	std::vector<std::byte> bytes(n);
	for (std::size_t i = 0; i < n; ++i)
		bytes[i] = static_cast<std::byte>(1 + i % 251);  // never 0, and no power-of-two period
	return bytes;
}

TEST_P(GuardedCopy, CopiesAsMemcpyDoesAndTouchesNoNeighbour) {
	std::vector<std::size_t> sizes(301);
	std::iota(sizes.begin(), sizes.end(), 0);
	sizes.insert(sizes.end(), {511, 1000, 1024, 4095, 4096, 4097, 8192, 65537});
	const auto source = pattern(65537 + 64);
	std::vector<std::byte> target(65537 + 128);
	for (const std::size_t n : sizes) {
		const std::size_t step = n > 300 ? 7 : 1;
		for (std::size_t to = 0; to < 33; to += step) {
			for (std::size_t from = 0; from < 33; from += 1 + from % 5 * step) {
				std::memset(target.data(), 0, n + 96);
				std::byte* at = target.data() + 32 + to;
				ASSERT_TRUE(copy(at, source.data() + from, n));
				ASSERT_TRUE(is_prefix(at, source.data() + from, n + 16, n, std::byte{0}))
					<< n << " to +" << to << " from +" << from;
				ASSERT_TRUE(std::all_of(at - 16, at, [](std::byte b) { return b == std::byte{0}; }))
					<< n << " to +" << to << " from +" << from;
			}
		}
	}
}

// --- The order of the stores. The test single-steps the routine, and after each instruction the
// SIGTRAP handler records how much was copied. ---

struct Watch {
	const std::byte* target;
	const std::byte* source;
	std::size_t n;
	std::size_t progress[512];
	std::size_t count;
	bool torn;  // the destination was not a growing prefix of the source
} watch;

void on_step(int, siginfo_t*, void*) {
	std::size_t copied = watch.count ? watch.progress[watch.count - 1] : 0;
	while (copied < watch.n && watch.target[copied] == watch.source[copied]) ++copied;
	if (!is_prefix(watch.target, watch.source, watch.n, copied, std::byte{0})) watch.torn = true;
	if (watch.count == 0 || watch.progress[watch.count - 1] != copied) {
		if (watch.count < std::size(watch.progress)) watch.progress[watch.count++] = copied;
		else watch.torn = true;
	}
}

// Copies with the CPU's trap flag set. A sanitizer may not add code here: the handler would run
// within the sanitizer's own functions, which may hold a lock that it needs too.
[[gnu::noinline, gnu::no_sanitize("thread", "address")]]
bool step_through(detail::CopyFunction* copy, void* to, const void* from, std::size_t n) {
	// The red zone below the stack pointer belongs to the compiler.
	asm volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
			: "memory", "cc");
	const bool copied = copy(to, from, n);
	asm volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
			: "memory", "cc");
	return copied;
}

// Whether a store that ends at `at` cuts a naturally aligned piece of [begin, end).
bool cuts_a_piece(std::uintptr_t at, std::uintptr_t begin, std::uintptr_t end) {
	for (const std::uintptr_t size : {2, 4, 8}) {
		const std::uintptr_t piece = at & ~(size - 1);
		if (piece != at && piece >= begin && piece + size <= end) return true;
	}
	return false;
}

TEST_P(GuardedCopy, StoresAscendAndNeverCutAnAlignedWord) {
	struct sigaction action{}, old{};
	action.sa_sigaction = on_step;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &action, &old);
	const auto source = pattern(400);
	alignas(64) std::byte target[512];
	std::vector<std::size_t> sizes(70);
	std::iota(sizes.begin(), sizes.end(), 1);
	sizes.insert(sizes.end(), {95, 96, 97, 127, 128, 129, 160, 161, 192, 257, 300});
	for (const std::size_t n : sizes) {
		for (std::size_t offset = 0; offset < 8; ++offset) {
			std::memset(target, 0, sizeof target);
			watch.target = target + offset;
			watch.source = source.data();
			watch.n = n;
			watch.count = 0;
			watch.torn = false;
			ASSERT_TRUE(step_through(GetParam().copy, target + offset, source.data(), n));
			ASSERT_FALSE(watch.torn) << n << " at +" << offset;
			ASSERT_EQ(watch.progress[watch.count - 1], n);
			const auto begin = reinterpret_cast<std::uintptr_t>(target + offset);
			for (std::size_t i = 0; i < watch.count; ++i)
				ASSERT_FALSE(cuts_a_piece(begin + watch.progress[i], begin, begin + n))
					<< n << " at +" << offset << " stopped at " << watch.progress[i];
		}
	}
	sigaction(SIGTRAP, &old, nullptr);
}

TEST_P(GuardedCopy, AReaderThatSeesTheLastByteSeesEveryCacheLine) {
	constexpr std::size_t n = 8192;
	constexpr int messages = 20'000;
	struct Shared {
		alignas(64) std::byte data[n];
		alignas(64) std::atomic<int> seen;
		std::atomic<int> torn;
	};
	auto* shared =
		static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	ASSERT_NE(shared, MAP_FAILED);
	const auto value = [](int message) { return static_cast<std::byte>(1 + message % 255); };
	const auto spin_until = [](auto&& holds) {
		for (unsigned spins = 1; !holds(); ++spins)
			if (spins % 4096 == 0) sched_yield();  // two processes may share one core
	};

	// Use two cores if there are two: on one the reader would run only between two copies.
	cpu_set_t allowed, writers, readers;
	sched_getaffinity(0, sizeof allowed, &allowed);
	CPU_ZERO(&writers);
	CPU_ZERO(&readers);
	std::vector<int> cpus;
	for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
		if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
	CPU_SET(cpus.front(), &writers);
	CPU_SET(cpus.back(), &readers);

	const pid_t reader = fork();
	ASSERT_GE(reader, 0);
	sched_setaffinity(0, sizeof writers, reader == 0 ? &readers : &writers);
	if (reader == 0) {
		alarm(30);  // do not outlive a failed parent
		const volatile std::byte* data = shared->data;
		for (int message = 0; message < messages; ++message) {
			spin_until([&] { return data[n - 1] == value(message); });
			// Read backwards, so that a line that was stored too late is read while it is still
			// missing.
			for (std::size_t line = n; line > 0; line -= 64)
				if (data[line - 64] != value(message)) shared->torn.fetch_add(1);
			shared->seen.store(message + 1, std::memory_order_release);
		}
		_exit(0);
	}
	std::vector<std::byte> source(n + 64);
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
	int sent = 0;
	for (; sent < messages && std::chrono::steady_clock::now() < deadline; ++sent) {
		const std::size_t skew = static_cast<std::size_t>(sent % 40);
		std::fill_n(source.begin() + static_cast<std::ptrdiff_t>(skew), n, value(sent));
		ASSERT_TRUE(copy(shared->data, source.data() + skew, n));
		spin_until([&] {
			return shared->seen.load(std::memory_order_acquire) > sent || std::chrono::steady_clock::now() > deadline;
		});
	}
	if (sent < messages) kill(reader, SIGKILL);
	int status = 0;
	waitpid(reader, &status, 0);
	sched_setaffinity(0, sizeof allowed, &allowed);
	EXPECT_GT(sent, 0);  // a loaded machine may run out of time before it runs out of messages
	EXPECT_EQ(shared->torn.load(), 0);
	munmap(shared, sizeof(Shared));
}

// --- Faults ---

TEST_P(GuardedCopy, AMissingSourcePageIsReportedWhereverItBegins) {
	std::byte* pages = map_pages(2);
	mprotect(pages + page, page, PROT_NONE);
	std::byte target[400];
	for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 160, 161, 300, 400}) {
		for (std::size_t present = 0; present < n; ++present)
			ASSERT_FALSE(copy(target, pages + page - present, n)) << n << " with " << present;
		ASSERT_TRUE(copy(target, pages + page - n, n)) << n;
	}
	munmap(pages, 2 * page);
}

TEST_P(GuardedCopy, ADestinationThatForbidsWritingKeepsAPrefixAndReportsFalse) {
	for (const int protection : {PROT_NONE, PROT_READ}) {
		std::byte* pages = map_pages(2);
		mprotect(pages + page, page, protection);
		const auto source = pattern(400);
		for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 160, 161, 300, 400}) {
			for (std::size_t present = 0; present < n; ++present) {
				std::byte* at = pages + page - present;
				std::memset(at, 0, present);
				ASSERT_FALSE(copy(at, source.data(), n)) << n << " with " << present;
				std::size_t copied = 0;
				while (copied < present && at[copied] == source[copied]) ++copied;
				ASSERT_TRUE(is_prefix(at, source.data(), present, copied, std::byte{0})) << n << " with " << present;
				ASSERT_LT(present - copied, 32u);
			}
			ASSERT_TRUE(copy(pages + page - n, source.data(), n)) << n;
		}
		munmap(pages, 2 * page);
	}
}

TEST_P(GuardedCopy, APageBeyondTheEndOfItsFileIsReported) {
	const int file = memfd_create("guarded_copy_test", MFD_CLOEXEC);
	ASSERT_EQ(ftruncate(file, page), 0);
	auto* pages = static_cast<std::byte*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	ASSERT_NE(pages, MAP_FAILED);
	std::byte local[64]{};
	EXPECT_TRUE(copy(local, pages + page - 64, 64));
	EXPECT_FALSE(copy(local, pages + page - 32, 64));
	EXPECT_FALSE(copy(pages + page - 32, local, 64));
	munmap(pages, 2 * page);
	close(file);
}

TEST_P(GuardedCopy, NothingIsTouchedForZeroBytes) { EXPECT_TRUE(copy(nullptr, nullptr, 0)); }

TEST_P(GuardedCopy, NonCanonicalAddressesAreReported) {
	std::byte local[64]{};
	auto* nowhere = reinterpret_cast<std::byte*>(0x8000'0000'0000'0000);
	EXPECT_FALSE(copy(local, nowhere, 64));
	EXPECT_FALSE(copy(nowhere, local, 8));
}

class GuardedAtomic : public GuardedCopy {};
INSTANTIATE_TEST_SUITE_P(Once, GuardedAtomic, testing::Values(Variant{"atomics", verbena_guarded_copy_sse2}),
	[](const auto& each) { return std::string(each.param.name); });

TEST_P(GuardedAtomic, CompareSwapStoresOnlyWhenEqualAndAlwaysReturnsTheOriginal) {
	std::uint64_t word = 7, original = 0;
	EXPECT_TRUE(guarded_compare_swap(&word, 8, 9, original));
	EXPECT_EQ(word, 7u);
	EXPECT_EQ(original, 7u);
	EXPECT_TRUE(guarded_compare_swap(&word, 7, 9, original));
	EXPECT_EQ(word, 9u);
	EXPECT_EQ(original, 7u);
}

TEST_P(GuardedAtomic, FetchAddWrapsAndReturnsTheOriginal) {
	std::uint64_t word = ~std::uint64_t{0}, original = 0;
	EXPECT_TRUE(guarded_fetch_add(&word, 3, original));
	EXPECT_EQ(word, 2u);
	EXPECT_EQ(original, ~std::uint64_t{0});
}

TEST_P(GuardedAtomic, IsAtomicWithThisCpusOwnInstructions) {
	std::atomic<std::uint64_t> word = 0;
	constexpr std::uint64_t rounds = 100'000;
	std::thread other([&] {
		for (std::uint64_t i = 0; i < rounds; ++i) word.fetch_add(1);
	});
	std::uint64_t original = 0;
	for (std::uint64_t i = 0; i < rounds; ++i)
		ASSERT_TRUE(guarded_fetch_add(reinterpret_cast<std::uint64_t*>(&word), 1, original));
	other.join();
	EXPECT_EQ(word.load(), 2 * rounds);
}

TEST_P(GuardedAtomic, AFaultLeavesTheOriginalAlone) {
	std::byte* pages = map_pages(1);
	auto* word = reinterpret_cast<std::uint64_t*>(pages);
	*word = 5;
	std::uint64_t original = 42;
	mprotect(pages, page, PROT_READ);
	EXPECT_FALSE(guarded_compare_swap(word, 1, 2, original)) << "a compare that fails needs write permission too";
	EXPECT_FALSE(guarded_fetch_add(word, 1, original));
	EXPECT_EQ(original, 42u);
	EXPECT_EQ(*word, 5u);
	munmap(pages, page);
	EXPECT_FALSE(guarded_fetch_add(word, 1, original));
	EXPECT_EQ(original, 42u);
}

TEST(Redirect, LeavesOtherProgramCountersAlone) {
	ucontext_t context{};
	const auto elsewhere = reinterpret_cast<greg_t>(&variants);
	context.uc_mcontext.gregs[REG_RIP] = elsewhere;
	EXPECT_FALSE(redirect_if_guarded(&context));
	EXPECT_EQ(context.uc_mcontext.gregs[REG_RIP], elsewhere);
}

TEST(Dispatch, PicksTheWidestVariantOfThisCpu) { EXPECT_EQ(detail::guarded_copy_chosen, variants().back().copy); }

}  // namespace
}  // namespace verbena::memory
