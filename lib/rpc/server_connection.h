// SPDX-License-Identifier: Apache-2.0
// ServerConnection: a server's connection to one client. It reads requests, calls their functions
// and sends the responses.
//
// A plain function runs at once, and its response is written straight into the outbox; coroutines
// and callbacks have an AsyncCall. Backpressure: the connection is not read while `in_flight_max`
// calls are unanswered or `unsent_max` bytes of responses and items are unsent.
//
// Threads: belongs to its home thread; closed(), id() and path() are thread-safe.
// Owns: the channel and the outbox. The serve() coroutine and the calls in flight share it.
// Lifetime: it ends when the client leaves or close() is called; calls in flight keep it longer.
// Errors: the client is untrusted. A frame that breaks the protocol is answered with an error,
//   counted in ServerCounters::faults, and ends the connection; a frame above a limit fails its
//   call only.
#pragma once

#include <any>
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/rpc/budget.h"
#include "lib/rpc/call_table.h"
#include "lib/rpc/context.h"

namespace verbena::rpc {

// The arguments of Handler::invoke, valid during that call.
struct Incoming {
	ServerConnection& connection;
	std::string_view function;  // the registered name
	const Frame& frame;
	Arrived& arrived;  // the message that the frame is in
	Unpacker& unpacker;
	void* object;
};

// A registered function; see make_handler().
struct Handler {
	void (*invoke)(Incoming&) = nullptr;
	void* object = nullptr;  // for a member function
	std::string name;
	bool is_stream = false;
};
using FunctionTable = std::unordered_map<std::uint32_t, Handler>;  // by function id

// The limits of one connection of a server.
struct ConnectionLimits {
	FrameLimits frame;
	std::size_t in_flight_max = 65'536;      // unanswered calls, without streams
	std::size_t unsent_max = 64u << 20;  // bytes of responses and items that are unsent
	// Bytes that the arguments of one request may take in memory once they are read, or as many as
	// the request has if that is more: for a client in plain text, and for one that is
	// authenticated.
	std::size_t decoded_max = 4u << 20, decoded_max_authenticated = 256u << 20;
	// Bytes that unanswered calls may hold with their messages and arguments; above that the
	// connection is not read.
	std::size_t held_max = 64u << 20;
	bool coalesce = true;  // responses of one turn of the loop share messages
	std::size_t streams_max = 1024;              // open streams; 0: none, as in protocol level 1
	// Limit in bytes for the items of a stream that its function has not read; 64 KiB to 1 GiB.
	std::uint32_t stream_window = 256 << 10;
	// Bytes of memory for the unread items of all streams. An item that finds no room ends its
	// stream with errc::message_too_large.
	std::size_t items_max = 256u << 20;
};

// The counters of all connections of one I/O thread.
//
// Threads: that thread writes, any thread reads; hence the load and store of add().
struct ServerCounters {
	// Open connections. The other counters only grow: `errors` counts responses with an error code,
	// `expired` responses that were dropped after their deadline, `faults` frames that no client
	// may send.
	std::atomic<std::uint64_t> connections{0};
	std::atomic<std::uint64_t> requests{0}, errors{0}, cancelled{0}, expired{0}, faults{0};
	// `over_budget`: calls whose arguments were over decoded_max, and streams whose items were over
	// items_max or memory_max. `budget_waits`: waits of connections for the server's memory_max.
	std::atomic<std::uint64_t> over_budget{0}, budget_waits{0};
	std::atomic<std::uint64_t> frames_sent{0}, messages_sent{0}, messages_received{0};
	static void add(std::atomic<std::uint64_t>& counter, std::uint64_t count = 1) {
		counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
	}
};

class ServerConnection : public async::Linked, public std::enable_shared_from_this<ServerConnection> {
public:
	ServerConnection(IoThread& home, std::unique_ptr<channel::Channel> channel, const FunctionTable& functions,
		const ConnectionLimits& limits, ServerCounters& counters, Budget& budget, std::uint64_t id);

	// Serves until the client leaves or close() is called, and then until the channel is closed.
	static async::Task<void> serve(std::shared_ptr<ServerConnection> self) { co_await self->serve(); }
	// Sends a goodbye, and closes once the client has answered it and all calls are answered.
	void drain();
	// Closes the channel behind the responses that are queued. Calls in flight are canceled.
	void close();
	bool closed() const { return closed_.load(std::memory_order_relaxed); }

	IoThread& home() const { return home_; }
	std::uint64_t id() const { return id_; }
	const channel::Path& path() const { return path_; }
	std::any& tag() { return tag_; }
	channel::MemoryPool* memory() const { return channel_->memory(); }

	// Queues a response, whose body `pack(Buffer&)` writes. Drops it if the connection is closed,
	// the call is canceled, or its deadline has passed; a response above a limit becomes an error.
	template <class Pack> void respond(context_info_t& info, errc code, Pack&& pack);
	void respond(context_info_t& info, const rpc_error& error);
	// Registers a call that is answered later.
	std::shared_ptr<AsyncCall> begin_call(Incoming& incoming);
	// Starts the stream of a call.
	std::shared_ptr<StreamEnd> begin_stream(AsyncCall& call);
	// Destroys the coroutines of handlers that have not ended. To be called on a closed connection
	// whose coroutines are all on the home thread.
	void abandon_calls();

private:
	friend class AsyncCall;
	async::Task<void> serve();
	async::Task<void> until_memory();  // waits until may_use_memory()
	void read(FrameReader& reader, Arrived& arrived);  // reads one frame
	void handle(const Frame& frame, Arrived& arrived);
	void execute(const Frame& frame, Arrived& arrived);  // a request or an open
	void give_to_stream(const Frame& frame, Arrived& arrived);  // an item, window or done
	void forget(std::uint32_t sequence, const rpc_error& why);
	void refuse(std::uint32_t sequence, const rpc_error& error);  // responds without a call
	bool may_read() const {
		return calls_.size() - streams_ < limits_.in_flight_max && held_by_calls() < limits_.held_max &&
			may_use_memory() && !outbox_.crowded();
	}
	// Streams do not count: they go on only while the connection is read.
	std::size_t held_by_calls() const { return held_.bytes() - held_by_streams_; }
	// Whether the server's budget has room, or this connection uses little of it.
	bool may_use_memory() const {
		return !held_.budget().exhausted() || held_by_calls() + outbox_.queued_bytes() < Budget::small_share;
	}
	void end_call(AsyncCall& call);
	void close_if_drained();  // closes if drain() is complete
	void count_sent();  // adds what the outbox has sent since the last call to the counters
	static async::Task<void> finish(std::shared_ptr<ServerConnection> self);

	IoThread& home_;
	std::unique_ptr<channel::Channel> channel_;
	const FunctionTable& functions_;
	ConnectionLimits limits_;
	ServerCounters& counters_;
	std::uint64_t id_;
	channel::Path path_;
	std::any tag_;
	Unpacker unpacker_;
	HeldBytes held_;  // by unanswered calls and by streams
	std::size_t held_by_streams_ = 0;
	std::shared_ptr<ItemBytes> items_;  // unread in streams
	CallTable<AsyncCall> calls_;
	std::size_t streams_ = 0;  // the number of calls in calls_ that have a stream
	// serve(), while in_flight_max calls are unanswered.
	async::List<async::Waiter> waiting_for_limits_;
	std::atomic<bool> closed_{false};
	bool draining_ = false, client_left_ = false;
	OutboxCounters counted_;  // the outbox's counters at the last count_sent()
	Outbox outbox_;
};

// The size of an attachment in bytes; see Attachment for strings.
inline std::size_t size_of(const Attachment& attachment) {
	const auto* const owned = std::get_if<std::string>(&attachment.owner);
	return owned != nullptr ? owned->size() : attachment.bytes.size();
}

template <class Pack> void ServerConnection::respond(context_info_t& info, errc code, Pack&& pack) {
	if (closed() || info.cancelled()) return;
	if (info.deadline_ < home_.loop().now()) {
		ServerCounters::add(counters_.expired);
		return;
	}
	FrameDraft draft = outbox_.begin(
		{.kind = FrameKind::response, .sequence = info.sequence_, .code = static_cast<std::uint16_t>(code)});
	try {
		pack(draft.buffer());
	} catch (...) {
		outbox_.drop(draft);
		throw;
	}
	const std::size_t attached = size_of(info.response_);
	if (outbox_.body_size(draft) > limits_.frame.body_max || attached > limits_.frame.attachment_max ||
		!outbox_.fits(draft, attached)) {
		outbox_.drop(draft);
		info.response_ = {};
		return respond(info, rpc_error(errc::message_too_large, "the response is larger than the server's limit"));
	}
	outbox_.finish(draft, std::move(info.response_));
	close_if_drained();
}

}  // namespace verbena::rpc
