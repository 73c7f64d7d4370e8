// SPDX-License-Identifier: Apache-2.0
// Makes the address sanitizer of a program report each use of memory that belongs to the device:
// the buffers of receives, and those into which READs and atomics return their results.
//
// From the post to the poll of the completion the memory is poisoned
// (sanitizer/asan_interface.h). Without that sanitizer nothing happens.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <span>

#include "nic/queues/work_request.h"

namespace verbena::rules {

class Sanitizer {
public:
	Sanitizer();
	void poison(std::span<const queues::Segment>) const;
	void unpoison(std::span<const queues::Segment>) const;

private:
	using Function = void (*)(void const volatile*, std::size_t);
	Function poison_ = nullptr, unpoison_ = nullptr;  // null: the program has no address sanitizer
};

}  // namespace verbena::rules
