// SPDX-License-Identifier: Apache-2.0
// A forked process and the socket between it and its parent, through which they send each other
// values as they are.
//
// Threads: one.
// Owns: the process and this end of the socket. The destructor kills and reaps the process; the
//   kernel kills it if its parent dies.
// Errors: a Failure if there is no socket or no process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <type_traits>

namespace verbena::kvbench {

// False if the other process has ended.
bool send_bytes(int fd, const void* bytes, std::size_t count);
bool receive_bytes(int fd, void* bytes, std::size_t count);

template <class T> bool send_value(int fd, const T& value) {
	static_assert(std::is_trivially_copyable_v<T>);
	return send_bytes(fd, &value, sizeof value);
}
template <class T> bool receive_value(int fd, T& value) {
	static_assert(std::is_trivially_copyable_v<T>);
	return receive_bytes(fd, &value, sizeof value);
}

class Child {
public:
	// Forks a process that does this work with its end of the socket, and ends. It ignores SIGINT,
	// because its parent handles Ctrl-C.
	explicit Child(const std::function<void(int fd)>& work);
	~Child();
	Child(const Child&) = delete;
	Child& operator=(const Child&) = delete;

	int fd() const { return fd_; }
	// Stops all threads of the process before it returns.
	void stop() const;

private:
	pid_t pid_ = -1;
	int fd_ = -1;
};

}  // namespace verbena::kvbench
