// Channel: a connection that carries messages, over RDMA (RC) or TCP.
//
//     auto message = co_await channel.receive();      // std::expected<Message, Trouble>
//     auto sent = co_await channel.send(message->bytes());
//
// Messages have 0 B to `message_max` bytes, arrive whole, once and in order, or the channel ends. One receiver at a
// time, any number of senders; their messages keep the order in which send() was called.
//
// send() is done when the channel has the bytes (posted, or copied): they may be reused. It waits while the send queue
// is full or the peer has no room; small messages then share a frame with others. Never is more in flight than the peer
// has buffers for.
//
// Where direct() is true, a side can lend the other a part of its registered memory, and use what was lent to it by
// RDMA READ and WRITE: lend(), read(), write(), and end() of what lend() gave.
//
// A channel belongs to its loop's thread, and so do the messages and leases that it gave; those may outlive it.
// Destroying it while a coroutine waits in it is allowed: the coroutine is not resumed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/async/loop.h"
#include "lib/channel/memory.h"

namespace verbena::channel {

// Why a channel carries no message any more, or did not take one.
enum class Trouble : std::uint8_t {
	closed,      // one of both ends closed it, and everything before that has arrived
	lost,        // the connection broke, or the peer died
	protocol,    // the peer sent what no peer may send
	too_large,   // more than `message_max`; the channel stays up
	no_memory,   // above the pool's watermark, with watermark=close
	unsupported, // a direct operation on a channel that has none
};

std::string_view name_of(Trouble trouble);

// Who takes a message's memory back.
class MessageOwner {
public:
	virtual void release(void* token) = 0;

protected:
	~MessageOwner() = default;
};

// A received message; its bytes are the pool's until it is destroyed.
class Message {
public:
	Message() = default;
	Message(std::span<const std::byte> bytes, MessageOwner* owner, void* token)
		: bytes_(bytes), owner_(owner), token_(token) {}
	Message(Message&& other) noexcept
		: bytes_(other.bytes_), owner_(std::exchange(other.owner_, nullptr)), token_(other.token_) {}
	Message& operator=(Message&& other) noexcept {
		if (this == &other) return *this;
		give_back();
		bytes_ = other.bytes_;
		owner_ = std::exchange(other.owner_, nullptr);
		token_ = other.token_;
		return *this;
	}
	~Message() { give_back(); }

	std::span<const std::byte> bytes() const { return bytes_; }

private:
	void give_back() {
		if (owner_ != nullptr) owner_->release(token_);
		owner_ = nullptr;
	}
	std::span<const std::byte> bytes_;
	MessageOwner* owner_ = nullptr;
	void* token_ = nullptr;
};

// Who ends a lease.
class LeaseOwner {
public:
	virtual void end_lease(std::uint32_t window) = 0;

protected:
	~LeaseOwner() = default;
};

// Memory lent to the peer, until this goes: then the peer's right is withdrawn, and the buffer kept until that is done.
class Lease {
public:
	Lease() = default;
	Lease(LeaseOwner& owner, std::uint32_t window, const RemoteMemory& remote)
		: owner_(&owner), window_(window), remote_(remote) {}
	Lease(Lease&& other) noexcept
		: owner_(std::exchange(other.owner_, nullptr)), window_(other.window_), remote_(other.remote_) {}
	Lease& operator=(Lease&& other) noexcept {
		std::swap(owner_, other.owner_);
		std::swap(window_, other.window_);
		std::swap(remote_, other.remote_);
		return *this;
	}
	~Lease() {
		if (owner_ != nullptr) owner_->end_lease(window_);
	}

	explicit operator bool() const { return owner_ != nullptr; }
	// For the peer; it may use it from the next send() on.
	const RemoteMemory& remote() const { return remote_; }
	// For the channel that ends it.
	std::uint32_t release() {
		owner_ = nullptr;
		return window_;
	}

private:
	LeaseOwner* owner_ = nullptr;
	std::uint32_t window_ = 0;
	RemoteMemory remote_;
};

// What a channel runs on, to be shown and asked for: there is no silent fallback.
struct Path {
	std::string transport;  // "rc" or "tcp"
	std::string device;  // of RDMA
	std::string gid;
	std::uint32_t mtu = 0;
	std::string peer;
};

class Channel {
public:
	using Sent = std::expected<void, Trouble>;
	using Received = std::expected<Message, Trouble>;

	// A send in progress: lives in the sender's coroutine frame. `head` and `body` are one message.
	class Sending : public async::Waiter {
	public:
		Sending(Channel& channel, std::span<const std::byte> head, std::span<const std::byte> body)
			: head(head), body(body), channel_(channel) {}
		Sending(Channel& channel, std::span<const std::byte> head, Place registered)
			: head(head), body(registered.bytes()), place(std::move(registered)), channel_(channel) {}
		bool await_ready() {
			result = channel_.start(*this);
			return result != Progress::waiting && result != Progress::offered;
		}
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			(result == Progress::offered ? channel_.offered_ : channel_.senders_).push_back(*this);
		}
		Sent await_resume() const {
			if (result == Progress::done) return {};
			return std::unexpected(trouble);
		}

		// offered: all of it is under way, and the peer is to fetch it.
		enum class Progress : std::uint8_t { done, waiting, offered, failed };
		std::size_t size() const { return head.size() + body.size(); }
		// `length` bytes of the message, from `from` on.
		std::array<std::span<const std::byte>, 2> slices(std::size_t from, std::size_t length) const {
			const std::size_t in_head = std::min(from, head.size());
			const std::size_t of_head = std::min(length, head.size() - in_head);
			return {head.subspan(in_head, of_head),
				body.subspan(of_head < length ? from + of_head - head.size() : 0, length - of_head)};
		}

		std::span<const std::byte> head, body;
		Place place;  // of the body, if it is registered memory
		std::uint32_t offer = 0;  // the number of the last one
		std::size_t offset = 0;  // how much the channel has taken
		bool begun = false;  // and whether its header
		Progress result = Progress::waiting;
		Trouble trouble = Trouble::closed;

	private:
		Channel& channel_;
	};

	class Receiving : public async::Waiter {
	public:
		explicit Receiving(Channel& channel) : channel_(channel) {}
		bool await_ready() const { return channel_.has_message() || channel_.ended_; }
		void await_suspend(std::coroutine_handle<> handle) {
			check(channel_.receivers_.empty(), "a channel has one receiver at a time");
			coroutine = handle;
			channel_.receivers_.push_back(*this);
		}
		Received await_resume() const { return channel_.next(); }

	private:
		Channel& channel_;
	};

	// A direct operation in progress: lives in the caller's coroutine frame, and may be abandoned there. Its buffer is
	// kept as long as needed.
	class Operation : public async::Waiter {
	public:
		enum class Kind : std::uint8_t { read, write, lend, end };
		Operation(Channel& channel, Kind kind, Place place, const RemoteMemory& remote, Right right, Lease lease)
			: kind(kind),
			  right(right),
			  place(std::move(place)),
			  remote(remote),
			  lease(std::move(lease)),
			  channel_(channel) {}
		Operation(const Operation&) = delete;
		Operation& operator=(const Operation&) = delete;
		~Operation() {
			if (mention != nullptr) *mention = nullptr;
		}
		bool await_ready() {
			if (channel_.operations_.empty()) channel_.begin(*this);
			else result = Progress::queued;
			return result == Progress::done || result == Progress::failed;
		}
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			(result == Progress::queued ? channel_.operations_ : channel_.under_way_).push_back(*this);
		}
		Sent await_resume() const {
			if (result == Progress::done) return {};
			return std::unexpected(trouble);
		}

		enum class Progress : std::uint8_t { queued, under_way, done, failed };
		Kind kind;
		Right right;
		Place place;
		RemoteMemory remote;
		Lease lease;
		Progress result = Progress::queued;
		Trouble trouble = Trouble::closed;
		Operation** mention = nullptr;  // where the channel remembers it

	private:
		Channel& channel_;
	};
	class Lending : public Operation {
	public:
		using Operation::Operation;
		std::expected<Lease, Trouble> await_resume() {
			if (result == Progress::done) return std::move(lease);
			return std::unexpected(trouble);
		}
	};

	virtual ~Channel() = default;
	Channel(const Channel&) = delete;
	Channel& operator=(const Channel&) = delete;

	Sending send(std::span<const std::byte> bytes) { return {*this, {}, bytes}; }
	Sending send(std::span<const std::byte> head, std::span<const std::byte> body) { return {*this, head, body}; }
	// A body in registered memory is not copied, unless it is small: the peer fetches it, and only then send() is done
	// and the bytes may be changed.
	Sending send(std::span<const std::byte> head, Place body) { return {*this, head, std::move(body)}; }
	Receiving receive() { return Receiving(*this); }

	// Direct operations: on channels whose direct() is true, and only on buffers of its memory(). Each is done when its
	// bytes have been moved, or, lend(), as soon as the peer may be told. Wrong use of what was lent ends the channel,
	// so nothing is checked twice.
	virtual bool direct() const { return false; }
	virtual MemoryPool* memory() const { return nullptr; }
	Lending lend(Place place, Right right) { return {*this, Operation::Kind::lend, std::move(place), {}, right, {}}; }
	Operation read(Place into, const RemoteMemory& from) {
		return {*this, Operation::Kind::read, std::move(into), from, Right::read, {}};
	}
	Operation write(const RemoteMemory& to, Place from) {
		return {*this, Operation::Kind::write, std::move(from), to, Right::write, {}};
	}
	// Once it is done the peer cannot touch the memory any more.
	Operation end(Lease lease) { return {*this, Operation::Kind::end, {}, {}, Right::read, std::move(lease)}; }

	// No more sends; what was taken goes out, then the peer is told. Its end, and this one's receive(), say `closed`
	// once everything has arrived.
	virtual void close() = 0;
	virtual bool closed() const = 0;  // both ends know, or one is lost: nothing is left to do but to destroy it
	// At most one waits for that; co_await until_closed().
	class Closing : public async::Waiter {
	public:
		explicit Closing(Channel& channel) : channel_(channel) {}
		bool await_ready() const { return channel_.closed(); }
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			channel_.closers_.push_back(*this);
		}
		void await_resume() const {}

	private:
		Channel& channel_;
	};
	Closing until_closed() { return Closing(*this); }

	// Goes when the channel goes: how who gave it knows that there is one less.
	void keep(std::shared_ptr<void> token) { kept_ = std::move(token); }

	virtual Path path() const = 0;
	std::size_t message_max() const { return message_max_; }  // bytes of what is sent
	async::Loop& loop() const { return loop_; }

	// One sentence, once the channel has ended by anything but close().
	const std::string& reason() const { return reason_; }
	// And a word for counting such ends: the status of the completion that told of it, or the trouble.
	std::string_view cause() const { return status_ != nullptr ? status_ : name_of(trouble_); }

protected:
	Channel(async::Loop& loop, std::size_t message_max) : loop_(loop), message_max_(message_max) {}

	// Takes what it can of this send; `waiting` if something is left. Only called while the channel is open, for the
	// first of those that wait, or when none does. A send that failed says why.
	virtual Sending::Progress advance(Sending& sending) = 0;
	virtual bool has_message() const = 0;
	// Called when has_message() or ended.
	virtual Received next() = 0;

	// Starts it, or leaves it `queued` for want of room in the send queue.
	virtual void begin(Operation& operation) {
		operation.result = Operation::Progress::failed;
		operation.trouble = Trouble::unsupported;
	}

	Sending::Progress start(Sending& sending) {
		return senders_.empty() ? attempt(sending) : Sending::Progress::waiting;
	}
	Sending::Progress attempt(Sending& sending);
	// There may be room again.
	void advance_senders();
	// There may be room for direct operations again.
	void advance_operations();
	// The coroutine that will be woken.
	void prefetch_receiver() const {
		if (!receivers_.empty()) prefetch(&receivers_.front(), 2 * cache_line);
	}
	void wake_receiver() { loop_.resume_soon(receivers_); }
	void wake_closers() { loop_.resume_soon(closers_); }
	// Nothing will come or go any more: everybody who waits learns it.
	void end(Trouble trouble, std::string reason);

	async::Loop& loop_;
	std::size_t message_max_;  // to be sent
	async::List<async::Waiter> senders_, receivers_, closers_;
	async::List<async::Waiter> offered_;  // senders whose body the peer is to fetch
	async::List<async::Waiter> operations_, under_way_;  // waiting for room; started
	bool closing_ = false;  // by this end
	bool ended_ = false;
	Trouble trouble_ = Trouble::closed;
	std::string reason_;
	const char* status_ = nullptr;  // of the completion that ended it

private:
	std::shared_ptr<void> kept_;
};

}  // namespace verbena::channel
