// TCP for coroutines: addresses, connecting, accepting, and reading and writing until a deadline.
//
// Errors are sentences for the user. Everything of one loop's thread.
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

struct Address {
	sockaddr_storage storage{};
	socklen_t length = 0;

	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
	int family() const { return storage.ss_family; }
	std::uint16_t port() const;
};

struct Host {
	std::string host;
	std::uint16_t port = 0;
};
// "host:port", "[v6]:port"; `port` where the text has none, as "host", "::1", "[::1]".
std::expected<Host, std::string> split_host(const std::string& text, std::uint16_t port);

// A name or an address of either family, with or without a port of its own.
std::expected<Address, std::string> resolve(const std::string& text, std::uint16_t port);
bool is_loopback(const Address& address);  // 127.0.0.0/8 or ::1
bool is_wildcard(const Address& address);  // 0.0.0.0 or ::, which nobody can connect to
// "10.0.0.1:18515", "[fd00::1]:18515"
std::string to_string(const Address& address);

// Waits for a change of the descriptor; false: the deadline came first.
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

// `from`: the local address to come from, if it matters. `reason`: where to put the errno of a failure; ETIMEDOUT: the
// deadline came first.
Task<Result<Socket>> connect(
	Loop& loop, Address to, Nanoseconds deadline, const Address* from = nullptr, int* reason = nullptr);

// A listening socket. Port 0: any free one; local_address() tells.
Result<Socket> listen(Loop& loop, const Address& where, int backlog = 4096);
Address local_address(const Descriptor& socket);
// The next connection, with Nagle's algorithm off. An error is of this socket: the process or the system has no
// descriptor left.
Task<Result<Socket>> accept(Descriptor& listener);

// At least one byte; 0: the peer has closed.
Task<Result<std::size_t>> read_some(Descriptor& socket, std::span<std::byte> into, Nanoseconds deadline);
Task<Result<void>> write_all(Descriptor& socket, std::span<const std::byte> bytes, Nanoseconds deadline);

// Non-blocking steps for who keeps its own buffers: bytes moved, 0 at the end of the stream, or -errno (-EAGAIN:
// await).
ssize_t try_read(Descriptor& socket, std::span<std::byte> into);
ssize_t try_write(Descriptor& socket, std::span<const std::byte> bytes);
ssize_t try_write(Descriptor& socket, std::span<const iovec> pieces);

}  // namespace verbena::async
