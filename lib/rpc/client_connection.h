// One connection to a server, as its client uses it: numbers requests, finds whom an answer belongs to, keeps their
// time.
//
// Of one I/O thread; held by the client and by the calls that are under way. A Pending lives in the frame of its
// caller: if that goes before the answer has come, the server is told to forget the call, and the answer belongs to
// nobody.
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

// A call that waits for its answer; co_await it once it was sent.
class Pending : public async::Waiter, private async::Timer {
public:
	explicit Pending(std::shared_ptr<ClientConnection> connection) : connection_(std::move(connection)) {}
	Pending(const Pending&) = delete;
	Pending& operator=(const Pending&) = delete;

	bool await_ready() const { return done_; }
	void await_suspend(std::coroutine_handle<> handle) { coroutine = handle; }
	void await_resume() const {}
	bool done() const { return done_; }

	rpc_error error;       // once it is done
	std::span<std::byte> attachment_room;    // where the answer's attachment goes, if it fits
	std::span<const std::byte>
		attachment;   // of the answer, once it is done: there, or in the message that `share` holds
	MessageShare share;
	std::shared_ptr<StreamEnd> stream;  // of a function that has one; set before the call begins

	virtual ~Pending();
	void fail(rpc_error why) {
		error = std::move(why);
		done_ = true;
	}
	// The caller waits no more: the server is told.
	void cancel();

protected:
	// Reads the answer's body. False: it is not of the function's type.
	virtual bool take(std::span<const std::byte> body, Unpacker& unpacker) = 0;
	// Whether views of the answer are kept.
	virtual bool keeps_message() const { return false; }

private:
	friend class ClientConnection;
	void finish();
	void expire() override;
	std::shared_ptr<ClientConnection> connection_;
	std::uint32_t sequence_ = 0;  // 0: not under way
	std::uint64_t large_ = 0;     // the outbox's number of a request that is sent from the caller's memory
	bool done_ = false;
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
public:
	// By TCP, or, with a transport's configuration, RDMA.
	struct Target {
		std::string host, port;
		std::optional<ibv_config> ibv;
		std::optional<ssl_config> ssl;
		std::chrono::milliseconds patience{30'000};
		FrameLimits limits;
		std::size_t unsent_max = 64u << 20;
		bool coalesce = true;
	};
	explicit ClientConnection(IoThread& thread) : thread_(thread) {}
	~ClientConnection();

	// From any thread; the rest on the connection's, but for what says otherwise.
	static async::Task<err_code> connect(std::shared_ptr<ClientConnection> connection, Target target);
	// Calls under way fail with `why`; what was sent goes out.
	void close(errc why = errc::operation_canceled);

	IoThread& thread() const { return thread_; }
	// Whether a call may begin; else why not.
	err_code usable() const;
	bool connected() const { return connected_.load(std::memory_order_relaxed); }  // from any thread
	std::size_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
	const std::string& reason() const { return reason_; }  // one sentence, after a failure
	const channel::Path& path() const { return path_; }
	// What the server says of itself (frame.h), once it was asked; 0: it was not.
	std::uint32_t server_level() const { return server_level_; }
	void set_server_level(std::uint32_t level) { server_level_ = level; }
	channel::MemoryPool* memory() const { return channel_ ? channel_->memory() : nullptr; }

	// Too much is unsent.
	bool crowded() const { return outbox_ && outbox_->crowded(); }
	// Waits until it is not. What is left of a call's patience then; 0: it is over.
	async::Task<Nanoseconds> until_room(Nanoseconds patience);
	async::Park until_progress() { return outbox_->until_progress(); }

	// A request: begin, pack the arguments, submit. Between them nothing else.
	FrameDraft begin(Pending& pending, std::uint32_t function, Nanoseconds patience);
	// False: it has failed and says why.
	bool submit(Pending& pending, FrameDraft& draft, Attachment attachment, Nanoseconds patience);
	void give_up(Pending& pending, FrameDraft& draft);
	// After submit(): whether the request's attachment is still needed.
	bool unsent(const Pending& pending) const {
		return pending.large_ != 0 && outbox_ && !outbox_->sent(pending.large_);
	}

	// From any thread.
	static async::Task<bool> ping(std::shared_ptr<ClientConnection> connection, Nanoseconds patience);
	static async::Task<OutboxCounters> counters(std::shared_ptr<ClientConnection> connection);
	static async::Task<RdmaUse> rdma(std::shared_ptr<ClientConnection> connection);  // of its thread

private:
	friend class Pending;
	async::Task<err_code> open(Target target);
	async::Task<bool> ping(Nanoseconds patience);
	async::Task<void> receive();
	void handle(const Frame& frame, Arrived& arrived);
	void break_off(errc code, std::string_view why);
	void answer(Pending& pending, const Frame& frame, Arrived& arrived);
	void fail_all(const rpc_error& error);
	void add(Pending& pending);
	void forget(Pending& pending, bool tell_server);
	Pending*& place_of(std::uint32_t sequence) { return places_[sequence & (places_.size() - 1)]; }
	// Null: its caller has given up.
	Pending* find(std::uint32_t sequence) {
		Pending* const pending = place_of(sequence);
		return pending != nullptr && pending->sequence_ == sequence ? pending : nullptr;
	}

	IoThread& thread_;
	Target target_;
	std::atomic<bool> connected_{false};
	std::atomic<std::size_t> in_flight_{0};
	bool goodbye_ = false;  // the server takes no more
	std::string reason_;
	channel::Path path_;
	std::uint32_t server_level_ = 0;
	std::uint64_t attempt_ = 0;  // of connecting or closing: the last one counts
	std::uint32_t sequence_ = 0;
	std::vector<Pending*> places_ = std::vector<Pending*>(64);  // by sequence number, modulo a power of two
	Unpacker unpacker_;
	std::unique_ptr<channel::Channel> channel_;
	std::optional<Outbox> outbox_;
	async::Job receiver_;
	struct Pong;
	async::List<Pong> pings_;
};

}  // namespace verbena::rpc
