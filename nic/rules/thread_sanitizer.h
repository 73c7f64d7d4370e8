// SPDX-License-Identifier: Apache-2.0
// The thread sanitizer that a program was built with (GCC's or clang's), which sees the program's
// loads and stores, and knows neither this library's locks nor the device.
//
// Its functions (sanitizer/tsan_interface.h) are looked up in the program, because this library is
// not built with it.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <mutex>

namespace verbena::rules {

struct ThreadSanitizer {
	// All that a thread did before it released `at` has happened before all that another one does
	// after it has acquired it.
	void (*acquire)(void* at);
	void (*release)(void* at);
	// A fiber is a thread that runs whenever another one switches to it.
	void* (*create_fiber)(unsigned flags);
	void* (*current_fiber)();
	void (*switch_to_fiber)(void* fiber, unsigned flags);
	void (*set_fiber_name)(void* fiber, const char* name);
	// The call stack of the current fiber.
	void (*enter)(void* return_address);
	void (*leave)();
	void (*read_range)(void* begin, std::size_t length, void* return_address);
	void (*write_range)(void* begin, std::size_t length, void* return_address);
	// Between the two, locks and unlocks of the calling thread order nothing.
	void (*ignore_locks)(const char* file, int line);
	void (*respect_locks)(const char* file, int line);

	// Null: the program has no thread sanitizer.
	static const ThreadSanitizer* found();
};

// A mutex of this library's. For the sanitizer, two threads that have locked it have not met: else
// each call of verbs would hide the races of the program's own threads.
class UnseenMutex {
public:
	void lock() {
		const Unseen unseen;
		mutex_.lock();
	}
	void unlock() {
		const Unseen unseen;
		mutex_.unlock();
	}

private:
	struct Unseen {
		Unseen() {
			if (const ThreadSanitizer* const tsan = ThreadSanitizer::found()) tsan->ignore_locks(nullptr, 0);
		}
		~Unseen() {
			if (const ThreadSanitizer* const tsan = ThreadSanitizer::found()) tsan->respect_locks(nullptr, 0);
		}
	};
	std::mutex mutex_;
};

}  // namespace verbena::rules
