// SPDX-License-Identifier: Apache-2.0
// ClientConnection: a client's connection to a server. It numbers requests, gives each response to
// the call that waits for it, and times calls out.
//
// Threads: connect(), ping(), counters(), rdma(), thread(), connected() and in_flight() are
//   thread-safe; everything else belongs to the connection's I/O thread.
// Owns: the channel and the outbox. The client and the calls in flight share the connection.
// Lifetime: a Pending lives in its caller's coroutine frame or behind a unique_ptr. If it is
//   destroyed before its response arrives, the server is asked to cancel the call, and a response
//   that arrives later is ignored.
// Errors: the server is untrusted. A frame that breaks the protocol ends the connection, and all
//   calls in flight fail with its error code; a response that cannot be read fails its call only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/channel/connect.h"
#include "lib/rpc/io_threads.h"
#include "lib/rpc/options.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/stream_end.h"

namespace verbena::rpc {

class ClientConnection;

// A call in flight. co_await it after submit(); it is ready when the response has arrived or the
// call has failed.
//
// Threads: the connection's I/O thread only, the destructor included.
class Pending : public async::Waiter, private async::Timer {
public:
	explicit Pending(std::shared_ptr<ClientConnection> connection) : connection_(std::move(connection)) {}
	Pending(const Pending&) = delete;
	Pending& operator=(const Pending&) = delete;

	bool await_ready() const { return done_; }
	void await_suspend(std::coroutine_handle<> handle) { coroutine = handle; }
	void await_resume() const {}
	bool done() const { return done_; }

	rpc_error error;       // valid when done()
	std::span<std::byte> attachment_room;    // the response's attachment is copied here if it fits
	// The response's attachment when done(): in attachment_room, or in the message of `share`.
	std::span<const std::byte> attachment;
	MessageShare share;
	std::shared_ptr<StreamEnd> stream;  // set before begin() for a function that has a stream

	// Cancels the call if it is in flight, and ends its stream.
	virtual ~Pending();
	// Fails a call that is not in flight.
	void fail(rpc_error why) {
		error = std::move(why);
		done_ = true;
	}
	// Asks the server to cancel the call, which fails with errc::operation_canceled. Does nothing
	// if it is not in flight.
	void cancel();

protected:
	// Reads the response's body. False: it is not of the function's type.
	virtual bool take(std::span<const std::byte> body, Unpacker& unpacker) = 0;
	// Returns whether the result may hold views of the message, which must then be kept.
	virtual bool keeps_message() const { return false; }

private:
	friend class ClientConnection;
	void finish();  // the call is over: resumes its caller and ends its stream
	void expire() override;  // its timeout
	std::shared_ptr<ClientConnection> connection_;
	std::uint32_t sequence_ = 0;  // 0: not in flight
	std::uint64_t large_ = 0;     // the outbox's number for an attachment in the caller's memory
	bool done_ = false;
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
public:
	// The server to connect to, and the settings of the connection; see client_config.
	struct Target {
		std::string host, port;  // port may be empty: `host` may then be "host:port"
		std::optional<ibv_config> ibv;  // absent: TCP
		std::optional<ssl_config> ssl;
		std::chrono::milliseconds patience{30'000};  // for connecting; 0: no limit
		FrameLimits limits;
		std::size_t unsent_max = 64u << 20;
		bool coalesce = true;
	};
	explicit ClientConnection(IoThread& thread) : thread_(thread) {}
	~ClientConnection();

	// Closes the present connection and makes a new one. Thread-safe. See Client::connect().
	static async::Task<err_code> connect(std::shared_ptr<ClientConnection> connection, Target target);
	// Fails the calls in flight with `why`, and closes the channel behind the queued frames.
	void close(errc why = errc::operation_canceled);

	IoThread& thread() const { return thread_; }
	// Returns whether a call may begin; if not, the error for it.
	err_code usable() const;
	bool connected() const { return connected_.load(std::memory_order_relaxed); }
	std::size_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
	const std::string& reason() const { return reason_; }  // the last failure, one sentence
	const channel::Path& path() const { return path_; }
	// The server's protocol level (frame.h); 0: it was not asked yet.
	std::uint32_t server_level() const { return server_level_; }
	void set_server_level(std::uint32_t level) { server_level_ = level; }
	channel::MemoryPool* memory() const { return channel_ ? channel_->memory() : nullptr; }

	// Backpressure: `unsent_max` bytes or more are unsent.
	bool crowded() const { return outbox_ && outbox_->crowded(); }
	// Waits until it is no longer crowded, or the patience is over. Returns what is left of the
	// patience; 0: it is over.
	async::Task<Nanoseconds> until_room(Nanoseconds patience);
	async::Park until_progress() { return outbox_->until_progress(); }

	// Sends a request: begin(), pack the arguments into the draft, then submit() or give_up(). The
	// coroutine must not wait in between, as the outbox has one draft at a time.
	FrameDraft begin(Pending& pending, std::uint32_t function, Nanoseconds patience);
	// False: the request is above a limit; `pending` has failed.
	bool submit(Pending& pending, FrameDraft& draft, Attachment attachment, Nanoseconds patience);
	void give_up(Pending& pending, FrameDraft& draft);
	// Returns whether a submitted request's attachment must still stay unchanged.
	bool unsent(const Pending& pending) const {
		return pending.large_ != 0 && outbox_ && !outbox_->sent(pending.large_);
	}

	// Thread-safe. See Client.
	static async::Task<bool> ping(std::shared_ptr<ClientConnection> connection, Nanoseconds patience);
	static async::Task<OutboxCounters> counters(std::shared_ptr<ClientConnection> connection);
	static async::Task<RdmaUse> rdma(std::shared_ptr<ClientConnection> connection);

private:
	friend class Pending;
	async::Task<err_code> open(Target target);
	async::Task<bool> ping(Nanoseconds patience);
	async::Task<void> receive();  // reads until the channel ends
	void handle(const Frame& frame, Arrived& arrived);
	void break_off(errc code, std::string_view why);
	void answer(Pending& pending, const Frame& frame, Arrived& arrived);
	void fail_all(const rpc_error& error);
	void add(Pending& pending);  // numbers it and puts it into the table
	void forget(Pending& pending, bool tell_server);  // removes it; may send a cancel
	Pending*& place_of(std::uint32_t sequence) { return places_[sequence & (places_.size() - 1)]; }
	// Null: no call has this number, for example because its caller has canceled it.
	Pending* find(std::uint32_t sequence) {
		Pending* const pending = place_of(sequence);
		return pending != nullptr && pending->sequence_ == sequence ? pending : nullptr;
	}

	IoThread& thread_;
	Target target_;
	std::atomic<bool> connected_{false};
	std::atomic<std::size_t> in_flight_{0};
	bool goodbye_ = false;  // the server is stopping and takes no more requests
	std::string reason_;
	channel::Path path_;
	std::uint32_t server_level_ = 0;
	// Counts connect() and close(): an attempt to connect that is no longer the last is dropped.
	std::uint64_t attempt_ = 0;
	std::uint32_t sequence_ = 0;  // the last number that was given
	// The calls in flight, by sequence number modulo a power of two; at most half of it is in use.
	std::vector<Pending*> places_ = std::vector<Pending*>(64);
	Unpacker unpacker_;
	std::unique_ptr<channel::Channel> channel_;
	std::optional<Outbox> outbox_;
	async::Job receiver_;
	struct Pong;
	async::List<Pong> pings_;
};

}  // namespace verbena::rpc
