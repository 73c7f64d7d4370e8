// SPDX-License-Identifier: Apache-2.0
// The interposed functions of the C library that allocate and free page-aligned memory.
//
// With the heap off, each is a comparison and a jump to the allocator behind it. malloc(), calloc()
// and the other functions that give memory without an alignment of a page are not interposed.
//
// Threads: any, also before constructors and after destructors have run.
// Errors: those of the allocator behind ours, which is asked whenever the heap does not serve.
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

#include "nic/heap/heap.h"
#include "nic/heap/page_map.h"
#include "nic/heap/symbols.h"

// Defines an exported function of ours under the C library's name. Inside of our code it has
// another name, so the attributes of the C library's declaration do not apply to it.
#define VERBENA_INTERPOSE(result, name, ...)                                                                  \
	extern "C" __attribute__((visibility("default"))) result verbena_heap_##name(__VA_ARGS__) __asm__(#name); \
	extern "C" result verbena_heap_##name(__VA_ARGS__)

namespace heap = verbena::heap;

// Functions of the runtimes of sanitizers, and of valgrind. Null: the process has none of them.
// NOLINTBEGIN(*-reserved-identifier)
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __hwasan_init();
[[gnu::weak]] void __msan_init();
[[gnu::weak]] void __tsan_init();
[[gnu::weak]] void _vgnU_freeres();
}
// NOLINTEND(*-reserved-identifier)

namespace {

template <class Function> using Next = heap::Next<Function>;

constinit Next<void(void*)> next_free{"free"};
constinit Next<void(void*)> next_cfree{"cfree"};
constinit Next<void*(void*, std::size_t)> next_realloc{"realloc"};
constinit Next<void*(void*, std::size_t, std::size_t)> next_reallocarray{"reallocarray"};
constinit Next<std::size_t(void*)> next_malloc_usable_size{"malloc_usable_size"};
constinit Next<int(void**, std::size_t, std::size_t)> next_posix_memalign{"posix_memalign"};
constinit Next<void*(std::size_t, std::size_t)> next_memalign{"memalign"};
constinit Next<void*(std::size_t, std::size_t)> next_aligned_alloc{"aligned_alloc"};
constinit Next<void*(std::size_t)> next_valloc{"valloc"};
constinit Next<void*(std::size_t)> next_pvalloc{"pvalloc"};
constinit Next<int(void*, std::size_t, int)> next_madvise{"madvise"};

[[gnu::constructor]] void look_up_early() {
	next_free.get();
	next_cfree.get();
	next_realloc.get();
	next_reallocarray.get();
	next_malloc_usable_size.get();
	next_posix_memalign.get();
	next_memalign.get();
	next_aligned_alloc.get();
	next_valloc.get();
	next_pvalloc.get();
	next_madvise.get();
	if (heap::enabled()) heap::watch_forks();
}

// Memory of the heap, or null if it is not for the heap or the heap cannot serve it.
void* from_heap(std::size_t alignment, std::size_t bytes) {
	if (alignment < heap::page_bytes || bytes < heap::page_bytes || !std::has_single_bit(alignment)) return nullptr;
	return heap::enabled() ? heap::allocate(alignment, bytes) : nullptr;
}

template <class... Parameters> void* ask(Next<void*(Parameters...)>& next, Parameters... parameters) {
	if (const auto function = next.get()) return function(parameters...);
	errno = ENOMEM;
	return nullptr;
}

// A block of the heap stays where it is if it is large enough.
void* resize(void* block, std::size_t bytes) {
	if (bytes == 0) return heap::release(block), nullptr;
	const std::size_t usable = heap::usable_bytes(block);
	if (bytes <= usable) return heap::shrink(block, bytes), block;
	void* larger = from_heap(heap::page_bytes, bytes);
	if (larger == nullptr) larger = std::malloc(bytes);
	if (larger == nullptr) return nullptr;
	std::memcpy(larger, block, usable);
	heap::release(block);
	return larger;
}

}  // namespace

VERBENA_INTERPOSE(void, free, void* memory) {
	if (heap::contains(memory)) [[unlikely]]
		return heap::release(memory);
	// Without a function behind ours, this call comes from inside dlsym(), and the memory stays.
	if (const auto function = next_free.get()) function(memory);
}

// C23; in glibc since 2.43. The C library's own would not recognise a block of the heap.
VERBENA_INTERPOSE(void, free_sized, void* memory, std::size_t) { verbena_heap_free(memory); }
VERBENA_INTERPOSE(void, free_aligned_sized, void* memory, std::size_t, std::size_t) { verbena_heap_free(memory); }

// Removed from the C library in 2017; old programs still refer to it.
VERBENA_INTERPOSE(void, cfree, void* memory) {
	if (heap::contains(memory)) [[unlikely]]
		return heap::release(memory);
	if (const auto function = next_cfree.get()) function(memory);
	else if (const auto plain = next_free.get()) plain(memory);
}

VERBENA_INTERPOSE(void*, realloc, void* memory, std::size_t bytes) {
	if (heap::contains(memory)) [[unlikely]]
		return resize(memory, bytes);
	return ask(next_realloc, memory, bytes);
}

VERBENA_INTERPOSE(void*, reallocarray, void* memory, std::size_t count, std::size_t bytes) {
	if (!heap::contains(memory)) [[likely]]
		return ask(next_reallocarray, memory, count, bytes);
	std::size_t whole;
	if (__builtin_mul_overflow(count, bytes, &whole)) return errno = ENOMEM, nullptr;
	return resize(memory, whole);
}

VERBENA_INTERPOSE(std::size_t, malloc_usable_size, void* memory) {
	if (heap::contains(memory)) [[unlikely]]
		return heap::usable_bytes(memory);
	const auto function = next_malloc_usable_size.get();
	return function ? function(memory) : 0;
}

VERBENA_INTERPOSE(int, posix_memalign, void** memory, std::size_t alignment, std::size_t bytes) {
	if (void* const block = from_heap(alignment, bytes)) return *memory = block, 0;
	const auto function = next_posix_memalign.get();
	return function ? function(memory, alignment, bytes) : ENOMEM;
}

VERBENA_INTERPOSE(void*, memalign, std::size_t alignment, std::size_t bytes) {
	if (void* const block = from_heap(alignment, bytes)) return block;
	return ask(next_memalign, alignment, bytes);
}

VERBENA_INTERPOSE(void*, aligned_alloc, std::size_t alignment, std::size_t bytes) {
	if (void* const block = from_heap(alignment, bytes)) return block;
	return ask(next_aligned_alloc, alignment, bytes);
}

VERBENA_INTERPOSE(void*, valloc, std::size_t bytes) {
	if (void* const block = from_heap(heap::page_bytes, bytes)) return block;
	return ask(next_valloc, bytes);
}

// Rounds the size up to whole pages.
VERBENA_INTERPOSE(void*, pvalloc, std::size_t bytes) {
	const bool any = bytes > 0 && bytes <= SIZE_MAX - heap::page_bytes;
	if (void* const block = any ? from_heap(heap::page_bytes, bytes + heap::page_bytes - 1) : nullptr) return block;
	return ask(next_pvalloc, bytes);
}

// The memory of a shared file mapping would survive MADV_DONTNEED.
VERBENA_INTERPOSE(int, madvise, void* memory, std::size_t bytes, int advice) {
	if (heap::contains(memory)) [[unlikely]]
		return heap::advise(memory, bytes, advice);
	if (const auto function = next_madvise.get()) return function(memory, bytes, advice);
	return errno = ENOSYS, -1;
}

namespace verbena::heap {

void* look_up_next(const char* name) {
	static constinit std::atomic<int> searches = 0;
	void* found = nullptr;
	if (searches.fetch_add(1, std::memory_order_relaxed) == 0) found = dlsym(RTLD_NEXT, name);
	searches.fetch_sub(1, std::memory_order_relaxed);
	return found;
}

bool allocations_are_watched() {
	return __asan_init != nullptr || __hwasan_init != nullptr || __msan_init != nullptr || __tsan_init != nullptr ||
		_vgnU_freeres != nullptr;
}

bool frees_are_ours() {
	return dlsym(RTLD_DEFAULT, "free") == reinterpret_cast<void*>(verbena_heap_free) &&
		dlsym(RTLD_DEFAULT, "realloc") == reinterpret_cast<void*>(verbena_heap_realloc);
}

}  // namespace verbena::heap
