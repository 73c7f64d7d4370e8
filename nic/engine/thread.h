// Threads that the NIC runs inside a program that knows nothing of them.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace verbena::engine {

// Starts `body` on a thread that takes none of the program's signals, except SIGSEGV and SIGBUS:
// the fault handler must see those that guarded copies raise on this thread. `name`: at most 15
// characters.
template <class Body> std::thread start_thread(const char* name, Body&& body) {
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	std::thread thread(std::forward<Body>(body));
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	pthread_setname_np(thread.native_handle(), name);
	return thread;
}

}  // namespace verbena::engine
