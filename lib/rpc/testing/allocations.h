// Counts what a program takes from the heap: in one source file of it. malloc itself is replaced, so nothing is missed:
// operator new, C libraries, the NIC. Not for programs under a sanitizer, which replaces it too.
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
