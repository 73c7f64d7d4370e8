// One client, as its server sees it: reads requests, calls their functions, sends answers.
//
// Of one I/O thread. A plain function runs at once and its answer is written straight into the outbox; coroutines and
// callbacks have an AsyncCall. Requests are not read while `in_flight_max` calls are unanswered or while `unsent_max`
// bytes of answers wait for the client.
#pragma once

#include <any>
#include <memory>
#include <string>
#include <unordered_map>

#include "lib/rpc/call_table.h"
#include "lib/rpc/context.h"

namespace verbena::rpc {

// What a call needs to be executed.
struct Incoming {
	ServerConnection& connection;
	std::string_view function;
	const Frame& frame;
	Arrived& arrived;
	Unpacker& unpacker;
	void* object;
};

struct Handler {
	void (*invoke)(Incoming&) = nullptr;
	void* object = nullptr;  // of a member function
	std::string name;
	bool is_stream = false;
};
using FunctionTable = std::unordered_map<std::uint32_t, Handler>;

struct ConnectionLimits {
	FrameLimits frame;
	std::size_t in_flight_max = 65'536;      // calls that are no streams
	std::size_t unsent_max = 64u << 20;
	bool coalesce = true;  // answers of one turn share messages
	std::size_t streams_max = 1024;              // at a time; 0: there are none, as at a server of protocol level 1
	std::uint32_t stream_window = 256 << 10;     // bytes of items that a function has not read; from 64 KiB on
};

// Of all connections of a thread; that thread writes, anybody reads.
struct ServerCounters {
	std::atomic<std::uint64_t> connections{0};  // now
	std::atomic<std::uint64_t> requests{0}, errors{0}, cancelled{0}, expired{0}, faults{0};
	std::atomic<std::uint64_t> frames_sent{0}, messages_sent{0}, messages_received{0};
	static void add(std::atomic<std::uint64_t>& counter, std::uint64_t count = 1) {
		counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
	}
};

class ServerConnection : public async::Linked, public std::enable_shared_from_this<ServerConnection> {
public:
	ServerConnection(IoThread& home, std::unique_ptr<channel::Channel> channel, const FunctionTable& functions,
		const ConnectionLimits& limits, ServerCounters& counters, std::uint64_t id);

	// Until the client leaves or close() was called; then it closes the channel.
	static async::Task<void> serve(std::shared_ptr<ServerConnection> self) { co_await self->serve(); }
	// Answers what is in flight, tells the client to send no more, then ends.
	void drain();
	void close();
	bool closed() const { return closed_.load(std::memory_order_relaxed); }  // from any thread

	IoThread& home() const { return home_; }
	std::uint64_t id() const { return id_; }
	const channel::Path& path() const { return path_; }
	std::any& tag() { return tag_; }
	channel::MemoryPool* memory() const { return channel_->memory(); }

	// An answer, on the home thread. `pack(Buffer&)` writes the body.
	template <class Pack> void respond(context_info_t& info, errc code, Pack&& pack);
	void respond(context_info_t& info, const rpc_error& error);
	std::shared_ptr<AsyncCall> begin_call(Incoming& incoming);
	std::shared_ptr<StreamEnd> begin_stream(AsyncCall& call);
	// Destroys the coroutines of handlers that have not ended. The connection is closed.
	void abandon_calls();

private:
	friend class AsyncCall;
	async::Task<void> serve();
	void read(FrameReader& reader, Arrived& arrived);  // one frame
	void handle(const Frame& frame, Arrived& arrived);
	void execute(const Frame& frame, Arrived& arrived);
	void forget(std::uint32_t sequence, const rpc_error& why);
	void refuse(std::uint32_t sequence, const rpc_error& error);
	bool may_read() const { return calls_.size() - streams_ < limits_.in_flight_max && !outbox_.crowded(); }
	void end_call(AsyncCall& call);
	void look_whether_drained();
	void count_sent();
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
	CallTable calls_;
	std::size_t streams_ = 0;  // of those, how many have one
	async::List<async::Waiter> slowed_;
	std::atomic<bool> closed_{false};
	bool draining_ = false, client_left_ = false;
	OutboxCounters counted_;
	Outbox outbox_;
};

// A string's bytes are found where it is sent.
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
		return respond(info, rpc_error(errc::message_too_large, "the answer is larger than the limit"));
	}
	outbox_.finish(draft, std::move(info.response_));
	look_whether_drained();
}

}  // namespace verbena::rpc
