// SPDX-License-Identifier: Apache-2.0
// Threads that the NIC runs inside a program that knows nothing of them.
//
// A thread takes none of the program's signals, except SIGSEGV and SIGBUS: the fault handler must
// see those that guarded copies raise on this thread.
//
// Threads: a Thread object belongs to one thread at a time.
// Lifetime: joined or detached before it is destroyed, as a std::thread. Its body must not throw.
// Errors: start() returns an errno value, which std::thread would throw: EAGAIN if the user, the
//   cgroup or the address space allows no further thread, ENOMEM.
#pragma once

#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>
#include <expected>
#include <memory>
#include <new>
#include <utility>

#include "base/check.h"
#include "nic/engine/last_thread.h"

namespace verbena::engine {

class Thread {
public:
	Thread() = default;
	Thread(Thread&& other) noexcept : handle_(other.handle_), joinable_(std::exchange(other.joinable_, false)) {}
	Thread& operator=(Thread&& other) noexcept {
		check(!joinable_, "a thread is joined before its object is used again");
		handle_ = other.handle_;
		joinable_ = std::exchange(other.joinable_, false);
		return *this;
	}
	~Thread() { check(!joinable_, "a thread is joined before its object dies"); }

	// Starts `body` on a new thread. `name`: at most 15 characters, and constant.
	template <class Body> static std::expected<Thread, int> start(const char* name, Body&& body);

	bool joinable() const { return joinable_; }
	void join() {
		pthread_join(handle_, nullptr);
		joinable_ = false;
	}
	// Also in the child of a fork, where the thread does not exist and the object remains.
	void forget() { joinable_ = false; }

private:
	pthread_t handle_{};
	bool joinable_ = false;
};

template <class Body> std::expected<Thread, int> Thread::start(const char* name, Body&& body) {
	struct Start {
		const char* name;
		std::decay_t<Body> body;
	};
	std::unique_ptr<Start> start(new (std::nothrow) Start{name, std::forward<Body>(body)});
	if (!start) return std::unexpected(ENOMEM);
	watch_main_thread();
	sigset_t all;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_t attributes;
	if (const int error = pthread_attr_init(&attributes)) return std::unexpected(error);
	Thread thread;
	// The mask is an attribute, so the calling thread's own mask need not change meanwhile.
	int error = pthread_attr_setsigmask_np(&attributes, &all);
	if (error == 0) {
		const auto run = [](void* argument) -> void* {
			const std::unique_ptr<Start> mine(static_cast<Start*>(argument));
			const OwnThread own;
			prctl(PR_SET_NAME, mine->name);
			mine->body();
			return nullptr;
		};
		error = pthread_create(&thread.handle_, &attributes, run, start.get());
	}
	pthread_attr_destroy(&attributes);
	if (error != 0) return std::unexpected(error);
	[[maybe_unused]] Start* const taken = start.release();  // the thread's now
	thread.joinable_ = true;
	return thread;
}

}  // namespace verbena::engine
