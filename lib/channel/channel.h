// SPDX-License-Identifier: Apache-2.0
// A channel: a connection that carries messages between two processes, over RDMA (RC) or TCP.
//
//     auto message = co_await channel.receive();      // std::expected<Message, Trouble>
//     auto sent = co_await channel.send(message->bytes());
//
// A message has from 0 to message_max() bytes. Messages arrive whole, once and in the order in
// which send() was called, or the channel ends. One coroutine at a time may receive; any number may
// send.
//
// On channels where direct() is true, an end can also share parts of its registered memory with its
// peer: `share()` makes a part accessible to the peer, read() and write() access a part that the
// peer has shared, by RDMA READ and WRITE, and end() withdraws the peer's access.
//
// Threads: not thread-safe. A channel, its messages and its leases are used on the thread of its
//   loop only.
// Backpressure: send() waits while the channel has no room for the message. Over RC it waits while
//   the send queue is full or the peer has no receive buffer free; small messages then collect in
//   one frame. There are never more frames in flight than buffers that the peer has posted for
//   them. Over TCP it waits while the write buffer is full, on a logical channel while the window
//   is used up or other channels have their turn. So a program that does not receive stops the
//   sends of its peer on this channel, and on no other channel.
// Owns: received bytes, until their Message is destroyed. Bytes to be sent stay the caller's: they
//   must be valid until send() is done.
// Lifetime: messages and leases may outlive their channel, but not the transport behind it. A
//   channel may be destroyed while coroutines wait in it: they are not resumed.
// Errors: operations return a Trouble and throw nothing. `too_large`, `unsupported` and the
//   `no_memory` of `share()` concern one operation. Any other Trouble means that the channel has
//   ended or was closed: reason() says why, and messages that have arrived can still be received.
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
	// One of the two ends closed it; the peer's earlier messages have arrived, unless reason() says
	// that the peer did not close in time.
	closed,
	// The connection broke, the peer died or stalled, or a send was abandoned within its message.
	lost,
	protocol,  // the peer broke the channel's protocol
	too_large,  // the message is larger than message_max(); the channel stays open
	// There is no memory for a message or a frame, and the channel does not wait for some
	// (Watermark in options.h). From `share()`: the device has no memory window left; the channel
	// stays open.
	no_memory,
	unsupported,  // a direct operation, where direct() is false; the channel stays open
};

// The enumerator as a word, for logs and metrics.
std::string_view name_of(Trouble trouble);

// The owner of the memory of received messages. release() takes back the memory of one message;
// `token` is the value that the constructor of its Message got.
class MessageOwner {
public:
	virtual void release(void* token) = 0;

protected:
	~MessageOwner() = default;
};

// A received message: movable, not copyable. Its destructor gives the memory back to the owner.
// Over RC that memory is a receive buffer or a part of the registered memory, so a program that
// keeps many Messages slows their sender down.
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

// The owner of the memory windows behind leases. end_lease() withdraws the peer's access; `window`
// is the value that the constructor of the Lease got.
class LeaseOwner {
public:
	virtual void end_lease(std::uint32_t window) = 0;

protected:
	~LeaseOwner() = default;
};

// The peer's access to a part of this end's registered memory. Channel::end() withdraws the access
// and waits until that is done. The destructor withdraws it too, without waiting; the buffer is
// kept until the adapter has withdrawn the access.
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

	// False: this Lease is empty and refers to no memory.
	explicit operator bool() const { return owner_ != nullptr; }
	// The address and key by which the peer accesses the memory. Send it to the peer in a message.
	const RemoteMemory& remote() const { return remote_; }
	// Empties this Lease and returns its window, without withdrawing the access. For the channel,
	// which then does that itself.
	std::uint32_t release() {
		owner_ = nullptr;
		return window_;
	}

private:
	LeaseOwner* owner_ = nullptr;
	std::uint32_t window_ = 0;
	RemoteMemory remote_;
};

// The transport and the device that a channel runs on, for a program to show or to check. A channel
// never falls back to another transport.
struct Path {
	// "rc", "tcp" or "tcp+tls"; a logical channel appends "+mux" to that of its carrier.
	std::string transport;
	std::string device;  // RDMA only, like `gid` and `mtu`; empty over TCP
	std::string gid;  // the GID of this end's device, as text
	// Bytes: the MTU of the connection, which is the smaller one of its two ends; of a server that
	// has no peer yet, the active MTU of its device.
	std::uint32_t mtu = 0;
	std::string peer;  // the peer's address and port, as text
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

	// Sends one message: `bytes`, or `head` with `body` behind it. Done when the channel has copied
	// all bytes, so that the caller may change them; the peer need not have received them yet.
	Sending send(std::span<const std::byte> bytes) { return {*this, {}, bytes}; }
	Sending send(std::span<const std::byte> head, std::span<const std::byte> body) { return {*this, head, body}; }
	// Sends a message whose body lies in registered memory. A body of at least RcOptions::share_min
	// bytes is not copied if direct() is true: the peer fetches it by RDMA READ, and send() is done
	// when the peer has fetched all of it.
	Sending send(std::span<const std::byte> head, Place body) { return {*this, head, std::move(body)}; }
	// Waits for the next message. On a channel that has ended, returns the messages that had
	// arrived before, and then the Trouble that ended it. At most one coroutine may wait in
	// receive(); a second one is a programming error (check).
	Receiving receive() { return Receiving(*this); }

	// Whether share(), read(), write() and end(), the direct operations, are possible; where they
	// are not, they fail with `unsupported`. Their buffers must come from memory(). read(), write()
	// and end() are done when the adapter has completed them, `share()` as soon as its Lease may be
	// sent to the peer. An access outside of what the peer shares, or after the peer has withdrawn
	// it, ends the channel at both ends.
	virtual bool direct() const { return false; }
	// The pool of registered memory; null over TCP and on logical channels, which have none.
	virtual MemoryPool* memory() const { return nullptr; }
	// Lets the peer read or write `place`, until the Lease ends.
	Sharing share(Place place, Right right) { return {*this, Operation::Kind::share, std::move(place), {}, right, {}}; }
	// Copies `into.length` bytes of memory that the peer shares, from the beginning of `from`, to
	// `into`. Does not look at `from.length`.
	Operation read(Place into, const RemoteMemory& from) {
		return {*this, Operation::Kind::read, std::move(into), from, Right::read, {}};
	}
	// Copies `from` to memory that the peer shares, from the beginning of `to` on. Does not look at
	// `to.length`.
	Operation write(const RemoteMemory& to, Place from) {
		return {*this, Operation::Kind::write, std::move(from), to, Right::write, {}};
	}
	// Withdraws the access that the lease stands for, which must not be empty. Once end() is done,
	// the peer cannot access the memory any more.
	Operation end(Lease lease) { return {*this, Operation::Kind::end, {}, {}, Right::read, std::move(lease)}; }

	// Begins to close the channel. Further sends, and sends that wait for room, fail with `closed`;
	// over TCP a message of which a part was taken is still sent. Bytes that the channel has taken
	// are still sent, and then the peer is notified; receive()
	// returns `closed` at both ends once everything has arrived. If the peer has not closed its
	// side within `close_timeout_ms`, the channel ends without it.
	virtual void close() = 0;
	// True once both ends have closed, or the connection is lost. Messages that have arrived can
	// still be received; nothing else is left to do but to destroy the channel.
	virtual bool closed() const = 0;
	// Waits until closed() is true.
	Closing until_closed() { return Closing(*this); }

	// Holds `token` until the channel is destroyed, so that the caller can count live channels.
	void keep(std::shared_ptr<void> token) { kept_ = std::move(token); }

	virtual Path path() const = 0;
	// The largest message to send, in bytes.
	std::size_t message_max() const { return message_max_; }
	async::Loop& loop() const { return loop_; }

	// One sentence that says why the channel has ended; empty before, and if both ends closed it in
	// order.
	const std::string& reason() const { return reason_; }
	// A label by which to count channels that have ended: the text of the failed completion's
	// status if a completion failed, otherwise name_of() the Trouble.
	std::string_view cause() const { return status_ != nullptr ? status_ : name_of(trouble_); }

	// A send in progress, the awaitable that send() returns. Its message is `head` with `body`
	// behind it. It must not be destroyed between the first and the last frame of the message: no
	// other send could complete that message, so the next send() ends the channel.
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

		// done: the channel has taken all bytes. waiting: the channel has taken the first `offset`
		// bytes. offered: every byte was sent or offered, and the peer still has to fetch some.
		// failed: `trouble` says why.
		enum class Progress : std::uint8_t { done, waiting, offered, failed };
		// The message's length in bytes.
		std::size_t size() const { return head.size() + body.size(); }
		// Returns the parts of `head` and of `body` that together are the `length` bytes of the
		// message from byte `from` on.
		std::array<std::span<const std::byte>, 2> slices(std::size_t from, std::size_t length) const {
			const std::size_t in_head = std::min(from, head.size());
			const std::size_t of_head = std::min(length, head.size() - in_head);
			return {head.subspan(in_head, of_head),
				body.subspan(of_head < length ? from + of_head - head.size() : 0, length - of_head)};
		}

		std::span<const std::byte> head, body;
		Place place;  // the body, if it lies in registered memory; otherwise empty
		// RcChannel: the number of the newest offer of this message (offers.h).
		std::uint32_t offer = 0;
		std::size_t offset = 0;  // while `waiting`: bytes that the channel has taken
		bool begun = false;  // TcpChannel, MuxChannel: the message's header has been taken
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

	// A direct operation in progress, the awaitable that read(), write() and end() return. It may
	// be destroyed, with its coroutine, before the adapter is done: the channel keeps the buffer as
	// long as the adapter uses it.
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

		// queued: the operation waits for room in the send queue. under_way: it is posted. failed:
		// `trouble` says why.
		enum class Progress : std::uint8_t { queued, under_way, done, failed };
		Kind kind;
		Right right;  // share: what the peer may do
		Place place;  // this end's memory; empty for `end`
		RemoteMemory remote;  // read, write: the memory that the peer shares
		Lease lease;  // share: the result; end: the lease to end
		Progress result = Progress::queued;
		Trouble trouble = Trouble::closed;
		// The channel's pointer to this operation, which the destructor sets to null.
		// `registration` itself is null while the channel has no such pointer.
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
	// Called while the channel is open, for the oldest waiting send, or for a new send when none
	// waits. Sets `trouble` of a send that fails.
	virtual Sending::Progress advance(Sending& sending) = 0;
	// Whether next() would return a message now.
	virtual bool has_message() const = 0;
	// Returns the next message, or the Trouble. Called when has_message(), or when the channel has
	// ended.
	virtual Received next() = 0;

	// Starts the operation, or leaves it `queued` when the send queue is full. This one is for
	// channels without direct operations.
	virtual void begin(Operation& operation) {
		operation.result = Operation::Progress::failed;
		operation.trouble = Trouble::unsupported;
	}

	// Advances a new send, unless older ones wait.
	Sending::Progress start(Sending& sending) {
		return senders_.empty() ? attempt(sending) : Sending::Progress::waiting;
	}
	// Advances the send. Fails it if the channel has ended or is closing, or if the message is too
	// large.
	Sending::Progress attempt(Sending& sending);
	// Advances the waiting sends, oldest first, until one must wait again, and resumes the senders
	// of those that are done or have failed.
	void advance_senders();
	// Starts the queued direct operations, oldest first, while there is room for them.
	void advance_operations();
	// Prefetches the coroutine that waits in receive().
	void prefetch_receiver() const {
		if (!receivers_.empty()) prefetch(&receivers_.front(), 2 * cache_line);
	}
	void wake_receiver() { loop_.resume_soon(receivers_); }
	void wake_closers() { loop_.resume_soon(closers_); }
	// Ends the channel; later calls change nothing. All sends that wait or are offered, and all
	// queued operations, fail with `trouble`, and the receiver is resumed. The implementation
	// itself ends the operations under way.
	void end(Trouble trouble, std::string reason);

	async::Loop& loop_;
	std::size_t message_max_;  // the largest message to send, in bytes
	// Waiting sends; waiters of receive() and until_closed().
	async::List<async::Waiter> senders_, receivers_, closers_;
	async::List<async::Waiter> offered_;  // sends of which the peer still has to fetch bytes
	// Direct operations: queued for room; posted.
	async::List<async::Waiter> operations_, under_way_;
	bool closing_ = false;  // close() was called
	// A message that was begun before close() is still sent as a whole: on a stream, a cut message
	// would look like a broken connection.
	bool finishes_begun_ = false;
	bool ended_ = false;  // end() was called; `trouble_` and `reason_` say why
	Trouble trouble_ = Trouble::closed;
	std::string reason_;
	// The text of the failed completion's status; null: no completion failed.
	const char* status_ = nullptr;

private:
	std::shared_ptr<void> kept_;
};

}  // namespace verbena::channel
