// SPDX-License-Identifier: Apache-2.0
// The device as threads of its own, for the thread sanitizer of a program. It reports a store into
// memory that the device may still read, and each use of memory that the device may write, with the
// stack of the use and that of the post.
//
// A request's accesses are recorded at its post, in a fiber, and what follows the end of its Use
// happens after them. A fiber serves one request at a time. A request that finds no fiber is not
// watched, and of each buffer the first MiB is.
//
// Threads: the caller has a lock. A Use may end in another thread than it began in.
// Lifetime: of this object, longer than of any Use.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "nic/queues/work_request.h"
#include "nic/rules/call_site.h"
#include "nic/rules/thread_sanitizer.h"

namespace verbena::rules {

class DeviceThreads {
public:
	static constexpr std::size_t watched_max = 64;  // requests; a fiber takes 0.8 MiB of memory
	static constexpr std::size_t length_max = 1 << 20;  // bytes of a buffer

	enum class Access : bool { reads, writes };
	struct Thread {
		void* fiber = nullptr;
		bool busy = false;
		char order = 0;  // its address stands for the order of the fiber and the program
	};

	// The device may access the memory. Afterwards the thread in which the Use ends may.
	class Use {
	public:
		Use() = default;
		Use(Use&& other) noexcept : thread_(std::exchange(other.thread_, nullptr)) {}
		Use& operator=(Use&& other) noexcept {
			std::swap(thread_, other.thread_);
			return *this;
		}
		~Use() { end(); }
		void end() noexcept;

	private:
		friend DeviceThreads;
		explicit Use(Thread& thread) : thread_(&thread) {}
		Thread* thread_ = nullptr;
	};

	// Whether there is a sanitizer, so that begin() does something.
	static bool are_seen() { return ThreadSanitizer::found() != nullptr; }
	Use begin(Access, std::span<const queues::Segment>, const Stack& posted_from);

private:
	std::array<Thread, watched_max> threads_;
};

}  // namespace verbena::rules
