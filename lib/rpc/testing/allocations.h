// Counts a program's heap allocations. To be included in exactly one source file of the program.
//
// It replaces malloc, calloc and realloc, and so also counts operator new, C libraries and the NIC.
// Under a sanitizer, which replaces malloc itself, nothing is counted.
//
// Threads: thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rpc_test {
std::atomic<std::uint64_t> allocations{0};
std::uint64_t count_of_allocations() { return allocations.load(std::memory_order_relaxed); }
}  // namespace rpc_test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

void* malloc(std::size_t bytes) {
	rpc_test::allocations.fetch_add(1, std::memory_order_relaxed);
	return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
	rpc_test::allocations.fetch_add(1, std::memory_order_relaxed);
	return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
	rpc_test::allocations.fetch_add(1, std::memory_order_relaxed);
	return __libc_realloc(block, bytes);
}
}
#endif
