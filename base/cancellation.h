// SPDX-License-Identifier: Apache-2.0
// Cancellation of the calling thread (pthread_cancel(3)), switched off for a part of a function.
//
// A cancelled thread unwinds out of the next libc call that is a cancellation point: close(),
// open(), poll(), connect() and many more. Code that holds a lock, or that has changed only half of
// what it must change, therefore makes no such call while cancellation is enabled. On the data
// path, where switching would cost too much, use syscall(), which is not a cancellation point.
//
// Threads: each object belongs to the thread that made it.
#pragma once

#include <pthread.h>

namespace verbena {

// While one exists, a cancellation of this thread waits.
class NotCancellable {
public:
	NotCancellable() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~NotCancellable() { pthread_setcancelstate(before_, nullptr); }
	NotCancellable(const NotCancellable&) = delete;
	NotCancellable& operator=(const NotCancellable&) = delete;

	// PTHREAD_CANCEL_ENABLE or PTHREAD_CANCEL_DISABLE: the state before this object.
	int before() const { return before_; }

private:
	int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace verbena
