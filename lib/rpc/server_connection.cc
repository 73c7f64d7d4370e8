// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/server_connection.h"

namespace verbena::rpc {
namespace {

using async::Task;

constexpr Nanoseconds pause_without_memory = 5'000'000;
// The bytes of one message that are read before other connections have a turn. Each frame counts as
// 256 bytes more, so that these are about a thousand frames without a body.
constexpr std::size_t bytes_a_turn = 256 << 10, bytes_of_frame = 256;

}  // namespace

ServerConnection::ServerConnection(IoThread& home, std::unique_ptr<channel::Channel> channel,
	const FunctionTable& functions, const ConnectionLimits& limits, ServerCounters& counters, Budget& budget,
	std::uint64_t id)
	: home_(home),
	  channel_(std::move(channel)),
	  functions_(functions),
	  limits_(limits),
	  counters_(counters),
	  id_(id),
	  path_(channel_->path()),
	  // "tcp" is plain text: its clients are not authenticated.
	  unpacker_(path_.transport == "tcp" ? limits.decoded_max : limits.decoded_max_authenticated),
	  held_(budget),
	  items_(std::make_shared<ItemBytes>(budget, limits.items_max)),
	  outbox_(*channel_, batch_max_of(*channel_, limits.coalesce), limits.unsent_max, &budget) {
	ServerCounters::add(counters_.connections);
}

Task<void> ServerConnection::serve() {
	while (!closed_) {
		auto message = co_await channel_->receive();
		if (!message) break;
		Arrived arrived(std::move(*message), home_);
		ServerCounters::add(counters_.messages_received);
		FrameReader reader(arrived.bytes(), limits_.frame);
		std::size_t work = 0;
		while (!reader.done() && !closed_) {
			// One message may hold millions of frames, so the limits are checked for each. A call
			// that ends and progress of the outbox each resume this coroutine.
			if (work >= bytes_a_turn) {
				work = 0;
				co_await async::NextTurn(home_.loop());
			} else if (may_read()) {
				const std::size_t before = reader.left();
				read(reader, arrived);
				work += bytes_of_frame + before - reader.left();
			} else if (outbox_.crowded()) {
				co_await outbox_.until_progress();
			} else if (!may_use_memory()) {
				co_await until_memory();
			} else {
				co_await async::Park(waiting_for_limits_);
			}
		}
		count_sent();
	}
	close();
	calls_.for_each([](AsyncCall& call) {
		call.give_up(rpc_error(errc::io_error, "the client closed the connection, or it broke"));
	});
	co_await channel_->until_closed();
	ServerCounters::add(counters_.connections, ~std::uint64_t{0});  // minus 1
}

void ServerConnection::abandon_calls() {
	while (AsyncCall* const call = calls_.remove_any())
		if (call->frame) std::exchange(call->frame, {}).destroy();
}

void ServerConnection::read(FrameReader& reader, Arrived& arrived) {
	const auto frame = reader.next();
	if (frame) return handle(*frame, arrived);
	ServerCounters::add(counters_.faults);
	refuse(frame.error().sequence, rpc_error(frame.error().code, std::string(frame.error().text)));
	if (frame.error().code == errc::message_too_large)
		forget(frame.error().sequence, rpc_error(errc::message_too_large));
	else close();
}

void ServerConnection::handle(const Frame& frame, Arrived& arrived) {
	switch (frame.header.kind) {
		case FrameKind::request:
		case FrameKind::open: execute(frame, arrived); return;
		case FrameKind::item:
		case FrameKind::window:
		case FrameKind::done: give_to_stream(frame, arrived); return;
		case FrameKind::cancel:
			ServerCounters::add(counters_.cancelled);
			forget(frame.header.sequence, rpc_error(errc::operation_canceled, "the client canceled the call"));
			return;
		case FrameKind::ping: {
			FrameDraft pong = outbox_.begin({.kind = FrameKind::pong, .sequence = frame.header.sequence});
			outbox_.finish(pong);
			return;
		}
		case FrameKind::goodbye:
			client_left_ = true;
			close_if_drained();
			return;
		case FrameKind::response:
		case FrameKind::pong: close(); return;  // a server sends no requests and no pings
	}
}

// Frames of a stream that has ended may still arrive, and are ignored.
void ServerConnection::give_to_stream(const Frame& frame, Arrived& arrived) {
	AsyncCall* const call = calls_.find(frame.header.sequence);
	if (call == nullptr || !call->stream_) return;
	const StreamEnd::Taken taken = call->stream_->take(frame, arrived);
	if (taken == StreamEnd::Taken::yes) return;
	if (taken == StreamEnd::Taken::no_room) {
		ServerCounters::add(counters_.over_budget);
		const rpc_error why(errc::message_too_large, "the unread items would take more memory than this server allows");
		refuse(frame.header.sequence, why);
		call->give_up(why);
		call->stream_->discard();
		return;
	}
	ServerCounters::add(counters_.faults);
	refuse(frame.header.sequence,
		rpc_error(errc::protocol_error,
			"a stream's flow control was violated: more was sent or granted than its window allows"));
	close();
}

// The caller no longer waits for this call's response.
void ServerConnection::forget(std::uint32_t sequence, const rpc_error& why) {
	if (AsyncCall* const call = calls_.find(sequence)) call->give_up(why);
}

void ServerConnection::execute(const Frame& frame, Arrived& arrived) {
	ServerCounters::add(counters_.requests);
	const auto found = functions_.find(frame.header.function);
	if (found == functions_.end()) {
		refuse(frame.header.sequence, rpc_error(errc::function_not_registered));
		return;
	}
	const bool opens = frame.header.kind == FrameKind::open;
	if (opens != found->second.is_stream) {
		refuse(frame.header.sequence,
			rpc_error(errc::invalid_rpc_arguments,
				opens ? "the function has no stream: call it" : "the function has a stream: open it"));
		return;
	}
	if (opens && (streams_ >= limits_.streams_max || held_by_streams_ >= limits_.held_max)) {
		refuse(frame.header.sequence, rpc_error(errc::too_many_streams));
		return;
	}
	if (calls_.find(frame.header.sequence) != nullptr) {
		ServerCounters::add(counters_.faults);
		refuse(frame.header.sequence, rpc_error(errc::serial_number_conflict));
		close();
		return;
	}
	Incoming incoming{.connection = *this,
		.function = found->second.name,
		.frame = frame,
		.arrived = arrived,
		.unpacker = unpacker_,
		.object = found->second.object};
	found->second.invoke(incoming);
	if (unpacker_.exceeded()) ServerCounters::add(counters_.over_budget);
	unpacker_.release();
}

// Other connections, also of other threads, free the memory, so this one looks again after a pause.
Task<void> ServerConnection::until_memory() {
	ServerCounters::add(counters_.budget_waits);
	while (!closed_ && !may_use_memory()) co_await home_.loop().sleep_for(pause_without_memory);
}

void ServerConnection::refuse(std::uint32_t sequence, const rpc_error& error) {
	Frame frame;
	frame.header.sequence = sequence;
	context_info_t info(*this, {}, frame, nullptr);
	respond(info, error);
}

void ServerConnection::respond(context_info_t& info, const rpc_error& error) {
	ServerCounters::add(counters_.errors);
	info.response_ = {};
	respond(info, error.code.ec == errc::ok ? errc::rpc_throw_exception : error.code.ec,
		[&](Buffer& into) { pack_value(into, std::string_view(error.msg).substr(0, 1024)); });
}

std::shared_ptr<AsyncCall> ServerConnection::begin_call(Incoming& incoming) {
	auto call = AsyncCall::make(shared_from_this(), incoming.function, incoming.frame, incoming.arrived);
	calls_.add(*call);
	return call;
}

std::shared_ptr<StreamEnd> ServerConnection::begin_stream(AsyncCall& call) {
	call.stream_ = StreamEnd::make(home_, limits_.stream_window, limits_.frame.body_max, items_);
	++streams_;
	held_by_streams_ += call.held_;
	call.stream_->begin(outbox_, call.info_.sequence_);
	call.stream_->end_at(call.info_.deadline_);
	return call.stream_;
}

void ServerConnection::end_call(AsyncCall& call) {
	if (call.stream_) {
		--streams_;
		held_by_streams_ -= call.held_;
		call.stream_->end({});
	}
	calls_.remove(call);
	held_.give_back(call.held_);
	// serve() checks the limits again: the outbox may be full.
	home_.loop().resume_soon(waiting_for_limits_);
	close_if_drained();
}

void ServerConnection::drain() {
	if (closed_ || draining_) return;
	draining_ = true;
	FrameDraft goodbye = outbox_.begin({.kind = FrameKind::goodbye});
	outbox_.finish(goodbye);
	close_if_drained();
}

void ServerConnection::close_if_drained() {
	if (!draining_ || !client_left_ || !calls_.empty()) return;
	close();
}

void ServerConnection::close() {
	if (closed_.exchange(true)) return;
	home_.loop().resume_soon(waiting_for_limits_);
	home_.loop().spawn(finish(shared_from_this()));
}

// Sends the frames that are in the outbox, and then closes the channel.
Task<void> ServerConnection::finish(std::shared_ptr<ServerConnection> self) {
	self->outbox_.flush();
	while (!self->outbox_.idle() && !self->outbox_.ended()) co_await self->outbox_.until_progress();
	self->count_sent();
	self->channel_->close();
}

void ServerConnection::count_sent() {
	const OutboxCounters now = outbox_.counters();
	ServerCounters::add(counters_.frames_sent, now.frames - counted_.frames);
	ServerCounters::add(counters_.messages_sent, now.messages - counted_.messages);
	counted_ = now;
}

}  // namespace verbena::rpc
