// Base of classes that begin on a cache line of their own and come and go with connections.
//
// glibc before 2.38 never reuses what an aligned allocation gave back, because it looks for a larger chunk than it
// freed (sourceware bug 14581): a server grew by a kilobyte with each client that it outlived. Ordinary chunks are
// reused.
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
		// malloc aligns to 16, so there is room for the pointer before the next line.
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
