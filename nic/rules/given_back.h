// SPDX-License-Identifier: Apache-2.0
// Memory that the program has given back to the kernel by madvise(2), until the book looks.
//
// A thread that gives memory back may be inside of an allocator and hold its locks, and a thread
// that has the book's lock may call that allocator. So note() takes no lock and allocates nothing.
//
// Threads: note() any; take() one at a time.
// Errors: none; a note that finds no place is dropped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::rules {

class GivenBack {
public:
	static constexpr std::size_t notes_max = 1024;

	void note(std::uint64_t begin, std::uint64_t end) noexcept {
		std::uint64_t ticket = next_.load(std::memory_order_relaxed);
		do
			if (ticket - taken_.load(std::memory_order_acquire) >= notes_max) return;
		while (!next_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed));
		Note& note = notes_[ticket % notes_max];
		note.begin = begin;
		note.end = end;
		note.ready.store(ticket + 1, std::memory_order_release);
	}

	// Calls visit(begin, end) for each note since the last call, the oldest first.
	template <class Visit> void take(Visit&& visit) {
		std::uint64_t ticket = taken_.load(std::memory_order_relaxed);
		for (;; ++ticket) {
			const Note& note = notes_[ticket % notes_max];
			if (note.ready.load(std::memory_order_acquire) != ticket + 1) break;
			visit(note.begin, note.end);
			taken_.store(ticket + 1, std::memory_order_release);
		}
	}

private:
	struct Note {
		std::uint64_t begin = 0, end = 0;
		std::atomic<std::uint64_t> ready = 0;  // its ticket and 1
	};

	std::array<Note, notes_max> notes_;
	std::atomic<std::uint64_t> next_ = 0, taken_ = 0;
};

}  // namespace verbena::rules
