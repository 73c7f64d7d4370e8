// SPDX-License-Identifier: Apache-2.0
// client_stream: the client's end of a stream (stream.h), which Client::open_stream() returns.
//
// Threads: a handle may be used from any thread. One read() and one write() may be in progress at a
//   time, and finish() is called once.
// Lifetime: the handle may outlive its client, which ends the stream. Destroying it before finish()
//   cancels the function.
// Errors: read(), write() and finish() return an rpc_result; once the stream has ended, all three
//   return the reason.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/rpc/client_call.h"
#include "lib/rpc/stream.h"

namespace verbena::rpc {

// The settings of one stream.
struct stream_config_t {
	std::chrono::nanoseconds timeout{0};  // for the whole stream, at both ends; 0: none
	std::optional<std::uint32_t> window;  // bytes; absent: the client's stream_window
};

namespace detail {

// client_stream_of::finish().
template <class Result>
Lazy<rpc_result<Result>> wait_for_end(std::shared_ptr<StreamEnd> end, std::shared_ptr<Answer<Result>> answer) {
	IoThread::Visit visit(end->home());
	co_await visit.there();
	end->stop_writing();
	end->discard();
	// The stream's handle shares the answer, which may therefore outlive this coroutine: if the
	// coroutine is destroyed here, nothing must resume it.
	struct Leave {
		Pending& answer;
		~Leave() {
			static_cast<async::Waiter&>(answer).unlink();
			answer.coroutine = {};
		}
	};
	Answer<Result>& pending = *answer;
	{
		const Leave leave{pending};
		co_await pending;
	}
	rpc_result<Result> result = pending.result();
	answer.reset();
	end.reset();
	co_await visit.back();
	co_return std::move(result);
}

// Limit for the wait for a server's protocol level, also if the stream has no timeout: 30 s.
inline constexpr Nanoseconds ask_patience = 30'000'000'000;

}  // namespace detail

// Reads the items that the function writes, and writes those that it reads.
template <class In, class Out, class Result> class client_stream_of : public stream<In, Out> {
public:
	client_stream_of(std::shared_ptr<StreamEnd> end, detail::PendingOnIoThread<Result> answer)
		: stream<In, Out>(std::move(end)), answer_(std::move(answer)) {}

	// Ends the items of this end: the function reads those that were written, and then the end.
	// The client may still read.
	void writes_done() {
		this->end_->home().run([end = this->end_] { end->stop_writing(); });
	}
	// Calls writes_done(), drops unread items and waits for the function's result. Call it once.
	Lazy<rpc_result<Result>> finish() { return detail::wait_for_end<Result>(this->end_, answer_); }
	// Asks the server to cancel the function. Reads, writes and finish() then fail with
	// errc::operation_canceled. Has no effect once the function has ended.
	void cancel() {
		this->end_->home().run([answer = answer_] { answer->cancel(); });
	}

private:
	std::shared_ptr<detail::Answer<Result>> answer_;
};
// The handle for function `f`. The function's Out is the client's In, and the other way round.
template <auto f>
using client_stream =
	client_stream_of<typename Function<f>::Out, typename Function<f>::In, Owned<typename Function<f>::Result>>;

namespace detail {

// Asks the server for its protocol level, once for each connection: a server of level 1 would end
// the connection at the first frame of a stream. Returns no error if it knows streams.
inline Lazy<rpc_error> ask_for_streams(std::shared_ptr<ClientConnection> connection, Nanoseconds patience) {
	if (connection->server_level() == 0) {
		Answer<std::uint32_t> pending(connection);
		const CallOptions options{.function = function_id(protocol_function), .patience = patience};
		if (send_call(*connection, pending, options)) co_await pending;
		const auto level = pending.result();
		if (!level && level.error().code != errc::function_not_registered) co_return level.error();
		connection->set_server_level(level ? *level : 1);
	}
	if (connection->server_level() >= 2) co_return rpc_error();
	co_return rpc_error(
		errc::unknown_protocol_version, "the server has no streams: it is an older version, or its streams_max is 0");
}

// Client::open_stream(). `item_max`: the largest item that the client may write, in bytes.
template <auto f, class... Carried>
Lazy<rpc_result<client_stream<f>>> run_open(std::shared_ptr<ClientConnection> connection, stream_config_t settings,
	std::uint32_t item_max, Carried... arguments) {
	using Result = rpc::Owned<typename Function<f>::Result>;
	IoThread::Visit visit(connection->thread());
	co_await visit.there();
	CallOptions options{.function = Function<f>::id, .patience = patience_of(settings.timeout)};
	const rpc_error refused = co_await ask_for_streams(connection, std::min(options.patience, ask_patience));
	rpc_result<client_stream<f>> opened = std::unexpected(refused);
	if (!refused) {
		if (connection->crowded()) options.patience = co_await connection->until_room(options.patience);
		PendingOnIoThread<Result> pending(new Answer<Result>(connection), {&connection->thread()});
		pending->stream = StreamEnd::make(connection->thread(), *settings.window, item_max, nullptr);
		std::shared_ptr<StreamEnd> end = pending->stream;
		if (send_call(*connection, *pending, options, arguments...))
			opened = client_stream<f>(std::move(end), std::move(pending));
		else opened = std::unexpected(pending->error);
	}
	co_await visit.back();
	co_return std::move(opened);
}

}  // namespace detail

}  // namespace verbena::rpc
