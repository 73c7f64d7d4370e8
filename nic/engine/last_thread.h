// SPDX-License-Identifier: Apache-2.0
// The end of a process whose main thread has ended by pthread_exit(3).
//
// Then the last thread that ends calls exit(0), in libc, which counts the NIC's threads too, and
// these do not end. So when the main thread has ended, one more thread of the NIC looks every 50 ms
// whether others than the NIC's are left, and if not calls exit(0) itself.
//
// Threads: any.
// Errors: none. Without /proc, or memory for a thread, such a process stays, as it would without
//   this file.
#pragma once

namespace verbena::engine {

// A thread of the NIC, from its first to its last step.
class OwnThread {
public:
	OwnThread();
	~OwnThread();
	OwnThread(const OwnThread&) = delete;
	OwnThread& operator=(const OwnThread&) = delete;

private:
	int place_;
};

// Notices the end of the calling thread, if it is the main one.
void watch_main_thread();

}  // namespace verbena::engine
