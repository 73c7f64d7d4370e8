// SPDX-License-Identifier: Apache-2.0
// TCP for coroutines: addresses, connect, accept, and reads and writes with a deadline.
//
// Threads: everything belongs to one loop's thread, except the functions on addresses, which are
//   thread-safe.
// Owns: a Socket closes its descriptor.
// Lifetime: the buffers and descriptors that a function takes by reference must outlive its Task.
// Errors: functions that return a Result or an std::expected return one sentence for the user. A
//   deadline that passes is such an error.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "lib/async/loop.h"

namespace verbena::async {

// An IPv4 or IPv6 address with its port.
struct Address {
	sockaddr_storage storage{};
	socklen_t length = 0;

	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
	int family() const { return storage.ss_family; }
	std::uint16_t port() const;
};

// A host's name or address as text, without brackets, and a port.
struct Host {
	std::string host;
	std::uint16_t port = 0;
};
// Splits "host:port" and "[v6]:port". For text without a port, such as "host", "::1" and "[::1]",
// the result has `port`.
std::expected<Host, std::string> split_host(const std::string& text, std::uint16_t port);

// Resolves a name or an address of either family. A port in the text takes precedence over `port`.
// Blocks while the name is looked up.
std::expected<Address, std::string> resolve(const std::string& text, std::uint16_t port);
bool is_loopback(const Address& address);  // 127.0.0.0/8 or ::1
bool is_wildcard(const Address& address);  // 0.0.0.0 or ::, to which no client can connect
// Returns text such as "10.0.0.1:18515" or "[fd00::1]:18515".
std::string to_string(const Address& address);

// An awaitable that waits until the descriptor is ready. The result is false if the deadline came
// first.
class Wait : public Timer, public Waiter {
public:
	enum class For { reading, writing };
	Wait(Descriptor& descriptor, For what, Nanoseconds deadline)
		: descriptor_(descriptor), what_(what), deadline_(deadline) {}
	~Wait() { descriptor_.loop().cancel(*this); }

	bool await_ready() const { return what_ == For::reading ? descriptor_.readable : descriptor_.writable; }
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		(what_ == For::reading ? descriptor_.readers : descriptor_.writers).push_back(*this);
		descriptor_.loop().schedule(*this, deadline_);
	}
	bool await_resume() const { return !timed_out_; }
	void expire() override {
		timed_out_ = true;
		descriptor_.loop().resume_soon(*this);
	}

private:
	Descriptor& descriptor_;
	For what_;
	Nanoseconds deadline_;
	bool timed_out_ = false;
};

using Socket = std::unique_ptr<Descriptor>;
template <class T> using Result = std::expected<T, std::string>;

// Connects, and fails at the deadline. `from`, if not null, is the local address to use. On failure
// `*reason`, unless `reason` is null, is the errno; it is ETIMEDOUT if the deadline came first.
Task<Result<Socket>> connect(
	Loop& loop, Address to, Nanoseconds deadline, const Address* from = nullptr, int* reason = nullptr);

// Opens a listening socket. Port 0 takes any free port, which local_address() returns.
Result<Socket> listen(Loop& loop, const Address& where, int backlog = 4096);
Address local_address(const Descriptor& socket);
// Waits for the next connection and turns Nagle's algorithm off for it. Fails if accept4() does,
// for example because no descriptor is free or the listener was shut down; a connection that its
// client has aborted is skipped. `*peer`, unless `peer` is null, is the client's address, which the
// socket no longer knows if the client resets the connection later.
Task<Result<Socket>> accept(Descriptor& listener, Address* peer = nullptr);

// Reads at least one byte. Returns 0 if the peer has closed.
Task<Result<std::size_t>> read_some(Descriptor& socket, std::span<std::byte> into, Nanoseconds deadline);
// Writes all bytes.
Task<Result<void>> write_all(Descriptor& socket, std::span<const std::byte> bytes, Nanoseconds deadline);

// Makes the kernel probe an idle connection, and break it (ETIMEDOUT) after about `dead_after`, at
// least 2 s, without an answer. The peer's kernel answers, also for a program that is stopped.
void keep_alive(const Descriptor& socket, Nanoseconds dead_after);

// The kernel does not probe a connection that is not idle. It knows this about its peer:
struct Answers {
	bool awaited = false;  // the peer's kernel has not acknowledged bytes or probes
	Nanoseconds silent_for = 0;  // the time since it last acknowledged anything
};
Answers answers_of(const Descriptor& socket);

// Non-blocking calls for callers that keep their own buffers. They return the number of bytes
// moved, 0 at the end of the stream, or -errno; after -EAGAIN, await a Wait.
ssize_t try_read(Descriptor& socket, std::span<std::byte> into);
ssize_t try_write(Descriptor& socket, std::span<const std::byte> bytes);
ssize_t try_write(Descriptor& socket, std::span<const iovec> pieces);

}  // namespace verbena::async
