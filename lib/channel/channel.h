// A channel: a connection that carries messages between two processes, over RDMA (RC) or TCP.
//
//     auto message = co_await channel.receive();      // std::expected<Message, Trouble>
//     auto sent = co_await channel.send(message->bytes());
//
// A message has 0 B to `message_max` bytes. Messages arrive whole, once and in the order in which
// send() was called, or the channel ends. One coroutine at a time may receive; any number may send.
//
// On channels where direct() is true, a side can also share parts of its registered memory with its
// peer: `share()` makes a part accessible, read() and write() access what the peer has shared, by
// RDMA READ and WRITE, and end() withdraws the access.
//
// Threads: not thread-safe. A channel, its messages and its leases are used on the thread of its
//   loop only.
// Backpressure: send() waits while the send queue is full or the peer has no receive buffer free;
//   small messages then share a frame. There are never more frames in flight than the peer has
//   posted buffers. A program that does not receive therefore stops its peer, and no other channel.
// Owns: received bytes, until their Message is destroyed. Bytes to be sent stay the caller's: they
//   must be valid until send() is done.
// Lifetime: messages and leases may outlive their channel, but not the transport behind it. A
//   channel may be destroyed while coroutines wait in it: they are not resumed.
// Errors: operations return a Trouble and throw nothing. `too_large`, `unsupported` and the
//   `no_memory` of `share()` concern one operation; any other means that the channel has ended, or
//   was closed: reason() says why, and messages that have arrived can still be received.
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

// Why a channel has ended, or did not take one message.
enum class Trouble : std::uint8_t {
	closed,  // one of the two ends closed it, and everything sent before that has arrived
	lost,  // the connection broke, or the peer died
	protocol,  // the peer broke the channel's protocol
	too_large,  // the message is larger than message_max(); the channel stays open
	// There is no memory, with watermark=close; or, from `share()`, the device has no window left.
	no_memory,
	unsupported,  // a direct operation, and direct() is false; the channel stays open
};

// The enumerator as a word, for logs and metrics.
std::string_view name_of(Trouble trouble);

// Takes a message's memory back; `token` is what its Message was made with.
class MessageOwner {
public:
	virtual void release(void* token) = 0;

protected:
	~MessageOwner() = default;
};

// A received message: movable, not copyable. Its memory goes back to its owner when it is
// destroyed, and the peer may then send that much more; a Message that is kept holds its sender
// back.
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

	// Valid until this Message is destroyed or assigned to.
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

// Withdraws the access of a lease; `window` is what the Lease was made with.
class LeaseOwner {
public:
	virtual void end_lease(std::uint32_t window) = 0;

protected:
	~LeaseOwner() = default;
};

// The peer's access to a part of this end's registered memory. It lasts until Channel::end(), or
// until this is destroyed: the access is then withdrawn without waiting, and the buffer is kept
// until that has happened.
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
	// The address and key by which the peer accesses the memory. Send it to the peer in a message.
	const RemoteMemory& remote() const { return remote_; }
	// For the channel that withdraws the access: this Lease is empty afterwards.
	std::uint32_t release() {
		owner_ = nullptr;
		return window_;
	}

private:
	LeaseOwner* owner_ = nullptr;
	std::uint32_t window_ = 0;
	RemoteMemory remote_;
};

// The transport and device that a channel runs on. A program can show and check it: a channel never
// falls back to another transport.
struct Path {
	std::string transport;  // "rc", "tcp" or "tcp+tls", and "+mux" for a logical channel
	std::string device;  // RDMA only, like `gid` and `mtu`
	std::string gid;  // the local one, as text
	std::uint32_t mtu = 0;  // the device's active MTU in bytes
	std::string peer;  // address and port, as text
};

class Channel {
public:
	using Sent = std::expected<void, Trouble>;
	using Received = std::expected<Message, Trouble>;

	// The awaitables that the operations return; they are defined below.
	class Sending;
	class Receiving;
	class Operation;
	class Sharing;
	class Closing;

	virtual ~Channel() = default;
	Channel(const Channel&) = delete;
	Channel& operator=(const Channel&) = delete;

	// Sends one message. Done when the channel has posted or copied the bytes, which may then be
	// changed; that does not say that the peer has received them.
	Sending send(std::span<const std::byte> bytes) { return {*this, {}, bytes}; }
	Sending send(std::span<const std::byte> head, std::span<const std::byte> body) { return {*this, head, body}; }
	// A body in registered memory, if it is not small, is not copied: the peer fetches it by RDMA
	// READ, and send() is done when it has.
	Sending send(std::span<const std::byte> head, Place body) { return {*this, head, std::move(body)}; }
	// The next message, or the trouble that ended the channel once all messages before were
	// received. At most one coroutine may wait in it; a second one is a programming error (check).
	Receiving receive() { return Receiving(*this); }

	// The direct operations need direct() and buffers of memory(); elsewhere they fail with
	// `unsupported`. read(), write() and end() are done when the adapter has completed them;
	// `share()` as soon as its Lease may be sent to the peer. An access outside of what the peer
	// shares, or after the peer has withdrawn it, ends the channel at both ends.
	virtual bool direct() const { return false; }
	// Null where there is no registered memory: over TCP, and on logical channels.
	virtual MemoryPool* memory() const { return nullptr; }
	// Lets the peer read or write `place`, until the Lease ends.
	Sharing share(Place place, Right right) { return {*this, Operation::Kind::share, std::move(place), {}, right, {}}; }
	// Copies memory that the peer shares into `into`; lengths are equal.
	Operation read(Place into, const RemoteMemory& from) {
		return {*this, Operation::Kind::read, std::move(into), from, Right::read, {}};
	}
	// Copies `from` into memory that the peer shares.
	Operation write(const RemoteMemory& to, Place from) {
		return {*this, Operation::Kind::write, std::move(from), to, Right::write, {}};
	}
	// Withdraws the access: once this is done the peer cannot access the memory any more.
	Operation end(Lease lease) { return {*this, Operation::Kind::end, {}, {}, Right::read, std::move(lease)}; }

	// Refuses further sends. Bytes that the channel has taken are still sent, then the peer is
	// notified; receive() returns `closed` at both ends once everything has arrived. A peer that
	// does not close its side within `close_timeout_ms` is given up.
	virtual void close() = 0;
	// Both ends have closed, or the connection is lost: nothing is left to do but to destroy it.
	virtual bool closed() const = 0;
	// Done when closed().
	Closing until_closed() { return Closing(*this); }

	// Stores a token that is released with the channel, so that the caller can count live channels.
	void keep(std::shared_ptr<void> token) { kept_ = std::move(token); }

	virtual Path path() const = 0;
	// The largest message to send, in bytes.
	std::size_t message_max() const { return message_max_; }
	async::Loop& loop() const { return loop_; }

	// One sentence that says why the channel has ended; empty after close().
	const std::string& reason() const { return reason_; }
	// A word by which to count such ends: the status of the failed completion, or name_of() the
	// trouble.
	std::string_view cause() const { return status_ != nullptr ? status_ : name_of(trouble_); }

	// A send in progress, the awaitable that send() returns. It lives in the sender's coroutine
	// frame and must not be destroyed between the first and the last frame of its message: no other
	// send could complete that message, so the next one ends the channel. `head` and `body` are one
	// message.
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

		// done: the channel has all bytes. waiting: it has taken the first `offset` bytes. offered:
		// every byte was sent or offered, and the peer still has to fetch some. failed: `trouble`
		// says why.
		enum class Progress : std::uint8_t { done, waiting, offered, failed };
		std::size_t size() const { return head.size() + body.size(); }
		// The part of head and of body that make `length` bytes of the message, beginning at
		// `from`.
		std::array<std::span<const std::byte>, 2> slices(std::size_t from, std::size_t length) const {
			const std::size_t in_head = std::min(from, head.size());
			const std::size_t of_head = std::min(length, head.size() - in_head);
			return {head.subspan(in_head, of_head),
				body.subspan(of_head < length ? from + of_head - head.size() : 0, length - of_head)};
		}

		std::span<const std::byte> head, body;
		Place place;  // the body, if it lies in registered memory; otherwise empty
		std::uint32_t offer = 0;  // the number of its newest offer (offers.h)
		std::size_t offset = 0;  // bytes that the channel has taken
		bool begun = false;  // the channel has taken the message's header
		Progress result = Progress::waiting;
		Trouble trouble = Trouble::closed;

	private:
		Channel& channel_;
	};

	// The awaitable that receive() returns.
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

	// A direct operation in progress, the awaitable that read(), write() and end() return. Its
	// coroutine may be destroyed before it is done: the channel keeps the buffer as long as the
	// adapter uses it.
	class Operation : public async::Waiter {
	public:
		enum class Kind : std::uint8_t { read, write, share, end };
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
			if (registration != nullptr) *registration = nullptr;
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

		// queued: it waits for room in the send queue. under_way: it is posted.
		enum class Progress : std::uint8_t { queued, under_way, done, failed };
		Kind kind;
		Right right;
		Place place;
		RemoteMemory remote;
		Lease lease;
		Progress result = Progress::queued;
		Trouble trouble = Trouble::closed;
		// The channel's pointer to this, cleared when this is destroyed.
		Operation** registration = nullptr;

	private:
		Channel& channel_;
	};
	// The awaitable that `share()` returns.
	class Sharing : public Operation {
	public:
		using Operation::Operation;
		std::expected<Lease, Trouble> await_resume() {
			if (result == Progress::done) return std::move(lease);
			return std::unexpected(trouble);
		}
	};

	// The awaitable that until_closed() returns.
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

protected:
	Channel(async::Loop& loop, std::size_t message_max) : loop_(loop), message_max_(message_max) {}

	// The rest is for the implementations (RcChannel, TcpChannel, MuxChannel).
	//
	// Takes as much of this send as there is room for; returns `waiting` if something is left.
	// Called while the channel is open, for the oldest of the waiting sends or when there are none.
	// Sets `trouble` of a send that failed.
	virtual Sending::Progress advance(Sending& sending) = 0;
	virtual bool has_message() const = 0;
	// The next message, or the trouble. Called when has_message(), or when the channel has ended.
	virtual Received next() = 0;

	// Starts the operation, or leaves it `queued` when the send queue is full.
	virtual void begin(Operation& operation) {
		operation.result = Operation::Progress::failed;
		operation.trouble = Trouble::unsupported;
	}

	Sending::Progress start(Sending& sending) {
		return senders_.empty() ? attempt(sending) : Sending::Progress::waiting;
	}
	Sending::Progress attempt(Sending& sending);
	// Resumes the senders whose messages now have room, oldest first.
	void advance_senders();
	// Starts the queued direct operations for which there is room now.
	void advance_operations();
	// Prefetches the coroutine that waits in receive().
	void prefetch_receiver() const {
		if (!receivers_.empty()) prefetch(&receivers_.front(), 2 * cache_line);
	}
	void wake_receiver() { loop_.resume_soon(receivers_); }
	void wake_closers() { loop_.resume_soon(closers_); }
	// Ends the channel, once: all waiting senders and queued operations fail with `trouble`, and
	// the receiver is resumed. Operations under way are ended by their implementation.
	void end(Trouble trouble, std::string reason);

	async::Loop& loop_;
	std::size_t message_max_;  // the largest message to send, in bytes
	async::List<async::Waiter> senders_, receivers_, closers_;
	async::List<async::Waiter> offered_;  // senders whose bytes the peer still has to fetch
	async::List<async::Waiter> operations_, under_way_;  // queued for room; posted
	bool closing_ = false;  // close() was called
	bool ended_ = false;
	Trouble trouble_ = Trouble::closed;
	std::string reason_;
	const char* status_ = nullptr;  // ibv_wc_status_str() of the completion that ended it

private:
	std::shared_ptr<void> kept_;
};

}  // namespace verbena::channel
