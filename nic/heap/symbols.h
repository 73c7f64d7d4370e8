// SPDX-License-Identifier: Apache-2.0
// The allocator behind the NIC's interposed functions: the C library's, or another one's, such as
// jemalloc's or a sanitizer's.
//
// Threads: any. The loader calls free() and realloc() before any constructor has run, and dlsym()
//   itself may call them; so a function is looked up when it is first called.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace verbena::heap {

// True if free() and realloc() of this process are the NIC's, so that heap memory comes back here.
bool frees_are_ours();

// True in a process that has the runtime of a sanitizer, or runs under valgrind.
bool allocations_are_watched();

// Finds a function behind ours. Null: there is none, or this call comes from inside a search.
void* look_up_next(const char* name);

template <class Function> class Next;

template <class Result, class... Parameters> class Next<Result(Parameters...)> {
public:
	using Pointer = Result (*)(Parameters...);
	constexpr explicit Next(const char* name) : name_(name) {}

	// Null if there is none.
	Pointer get() {
		const Pointer known = function_.load(std::memory_order_relaxed);
		return known ? known : look_up();
	}

private:
	[[gnu::cold, gnu::noinline]] Pointer look_up() {
		const auto found = reinterpret_cast<Pointer>(look_up_next(name_));
		if (found) function_.store(found, std::memory_order_relaxed);
		return found;
	}

	const char* name_;
	std::atomic<Pointer> function_{nullptr};
};

}  // namespace verbena::heap
