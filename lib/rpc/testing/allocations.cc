// SPDX-License-Identifier: Apache-2.0
// Replaces malloc, calloc and realloc by functions that count their calls, and so also counts
// operator new, C libraries and the NIC. Under a sanitizer, which replaces malloc itself, nothing
// is counted.
#include "lib/rpc/testing/allocations.h"

#include <atomic>
#include <cstddef>

namespace rpc_test {
namespace {

constinit std::atomic<std::uint64_t> allocations{0};
[[maybe_unused]] void count_one() { allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint64_t count_of_allocations() { return allocations.load(std::memory_order_relaxed); }

}  // namespace rpc_test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

void* malloc(std::size_t bytes) {
	rpc_test::count_one();
	return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
	rpc_test::count_one();
	return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
	rpc_test::count_one();
	return __libc_realloc(block, bytes);
}
}
#endif
