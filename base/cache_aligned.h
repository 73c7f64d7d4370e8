// SPDX-License-Identifier: Apache-2.0
// The base of classes whose objects begin on a cache line and are created and destroyed with
// connections. Its operator new allocates with malloc, and aligns the object inside of that chunk.
//
// Before glibc 2.38 (sourceware bug 14581) the memory of a freed aligned allocation was never
// reused: aligned_alloc looked for a chunk larger than the freed one. A server grew by a kilobyte
// with each client that came and went. Chunks of malloc are reused.
//
// Threads: thread-safe, as malloc and free are.
// Errors: std::bad_alloc; the nothrow form returns nullptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace verbena {

struct CacheAligned {
	static constexpr std::size_t line = 64;

	static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
		void* chunk = std::malloc(bytes + line);
		if (!chunk) return nullptr;
		// malloc aligns to 16 bytes, so the pointer to the chunk fits before the next line.
		auto* object = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(chunk) + line) & ~(line - 1));
		reinterpret_cast<void**>(object)[-1] = chunk;
		return object;
	}
	static void* operator new(std::size_t bytes) {
		if (void* object = operator new(bytes, std::nothrow)) return object;
		throw std::bad_alloc();
	}
	static void operator delete(void* object) noexcept {
		if (object) std::free(static_cast<void**>(object)[-1]);
	}
	static void operator delete(void* object, const std::nothrow_t&) noexcept { operator delete(object); }
};

}  // namespace verbena
