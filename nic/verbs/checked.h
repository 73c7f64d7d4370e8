// SPDX-License-Identifier: Apache-2.0
// The checker of this process (nic/rules), if VERBENA_CHECK asks for one.
//
// Threads: any.
// Lifetime: begun before the program has its first device; never destroyed.
#pragma once

#include <atomic>
#include <memory>

#include "nic/rules/book.h"

namespace verbena::verbs {

namespace detail {
inline constinit std::atomic<rules::Book*> book = nullptr;
}

// Null: the process is not checked.
inline rules::Book* checked() noexcept { return detail::book.load(std::memory_order_acquire); }

// Reads VERBENA_CHECK, the lowest severity that is reported, and VERBENA_CHECK_FILE, the file for
// the findings; the first call counts.
void begin_check() noexcept;
// Reports what can be said only at the end of the process.
void end_check() noexcept;
// The program has called ibv_fork_init(3), and is about to fork.
void note_fork_init() noexcept;
void note_fork() noexcept;
// In the child of a fork: another thread may have held the locks.
void renew_check_after_fork() noexcept;

// Keeps the memory of a destroyed object for a while, so that its use can be found.
void keep_ghost(std::shared_ptr<void>);
// Deletes an object that the program has destroyed.
template <class Object> void dispose(Object& object) {
	if (!checked()) [[likely]] {
		delete &object;
		return;
	}
	keep_ghost(std::shared_ptr<void>(&object, [](void* ghost) { delete static_cast<Object*>(ghost); }));
}

// The place from which the program has called a verb, by its whole stack, or by the call's return
// address and its frame.
rules::Site site_here();
rules::Site site_of_return(const void* return_address, const void* frame);

}  // namespace verbena::verbs
