// SPDX-License-Identifier: Apache-2.0
// The sleep of a thread that blocks in a verb until an event comes: ibv_get_cq_event(3),
// ibv_get_async_event(3), rdma_get_cm_event(3), and the destroy functions, which wait for
// acknowledgements.
//
// Such a thread drives the engine, so it sleeps on its own descriptor and on the process's
// doorbell. It may leave that sleep without a word: its signal handler calls siglongjmp(), or it is
// cancelled. So it takes nothing from the progress thread that it would have to give back. The
// doorbell is in both threads' epoll sets, with the waiters' sets first, and a ring wakes the first
// set in which a thread sleeps at that moment. The kernel knows that, whatever became of the thread
// (docs/decisions/0025).
//
// The function that the program called makes the system call in which the thread sleeps, and has no
// destructor to run then: neither siglongjmp() nor the C library's unwinder runs the destructors of
// this library, which has an unwinder of its own. It calls the rest of the verb before and after
// each sleep (sleeping()).
//
// Threads: any; several threads may wait for one descriptor.
// Owns: a WaitSet its epoll descriptor; not the descriptor that it waits for.
// Invariants: signals and cancellation reach the thread only while it sleeps, when it holds no
//   lock.
#pragma once

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "nic/engine/epoll_set.h"

namespace verbena::engine {

// One call of a verb that may sleep: what it must know before, in and after its sleeps. Made by
// sleeping(). Trivially destructible, because a sleeping thread may not come back.
struct BlockingCall {
	enum class Sleep : std::uint8_t { none, epoll, poll, futex };

	// From the verb: the sleep that it wants before its next call; `none`: the verb is done.
	Sleep sleep = Sleep::none;
	int epoll = -1, fd = -1, doorbell = -1;
	const std::atomic<std::uint32_t>* word = nullptr;  // futex: sleep while it is `seen`
	std::uint32_t seen = 0;
	Nanoseconds timeout = never;

	// To the verb: what ended the sleep.
	bool slept = false, readable = false, rung = false;
	int error = 0;  // an errno value

	// The verb's own: when it first wanted to sleep (0: not known), and whether it has said why the
	// sleep may never end.
	Nanoseconds began = 0;
	bool is_explained = false;

	// The thread's own signal mask, if its signals are held, and its own state of cancellation.
	sigset_t own_mask;
	bool signals_held = false;
	int own_cancellation = PTHREAD_CANCEL_ENABLE;
};
static_assert(std::is_trivially_destructible_v<BlockingCall>);

namespace detail {
void begin(BlockingCall&);  // a cancellation point; holds signals and cancellation from here on
void sleep(BlockingCall&);  // as `call` says; a cancellation point
void end(BlockingCall&);
}  // namespace detail

// Calls verb(call) until it wants no sleep, and returns its last result. The caller and `verb` have
// no destructor that would run when the thread leaves a sleep.
template <class Verb> [[gnu::always_inline]] inline auto sleeping(Verb verb) {
	BlockingCall call;
	detail::begin(call);
	for (;;) {
		call.sleep = BlockingCall::Sleep::none;
		const auto result = verb(call);
		if (call.sleep == BlockingCall::Sleep::none) {
			detail::end(call);
			return result;
		}
		detail::sleep(call);
	}
}

// The descriptors on which threads sleep that wait for `fd`.
class WaitSet {
public:
	explicit WaitSet(int fd) : fd_(fd) {}
	int fd() const { return fd_; }

private:
	friend class Progress;

	int fd_;
	std::mutex mutex_;
	std::unique_ptr<EpollSet> set_;  // made for the first sleep
};

}  // namespace verbena::engine
