// The client's end of a stream, and how it is opened (Client::open_stream, stream.h).
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/rpc/client_call.h"
#include "lib/rpc/stream.h"

namespace verbena::rpc {

// Of one stream.
struct stream_config_t {
	std::chrono::nanoseconds timeout{0};  // of the whole stream, at both ends; 0: none
	std::optional<std::uint32_t> window;  // in place of the client's stream_window
};

namespace detail {

template <class Result>
Lazy<rpc_result<Result>> wait_for_end(std::shared_ptr<StreamEnd> end, std::shared_ptr<Answer<Result>> answer) {
	IoThread::Visit visit(end->home());
	co_await visit.there();
	end->stop_writing();
	end->discard();
	// The answer may live longer than who waits for it.
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

// A server that does not even answer a question is not waited for without end.
inline constexpr Nanoseconds ask_patience = 30'000'000'000;

}  // namespace detail

// Reads what the function writes, and writes what it reads. When it goes before finish(), the function is told to give
// up.
template <class In, class Out, class Result> class client_stream_of : public stream<In, Out> {
public:
	client_stream_of(std::shared_ptr<StreamEnd> end, detail::PendingAtHome<Result> answer)
		: stream<In, Out>(std::move(end)), answer_(std::move(answer)) {}

	// The function reads to the end of what was written. Reading goes on.
	void writes_done() {
		this->end_->home().run([end = this->end_] { end->stop_writing(); });
	}
	// Once: writes_done(), and how the function ended. What was not read is dropped.
	Lazy<rpc_result<Result>> finish() { return detail::wait_for_end<Result>(this->end_, answer_); }
	// The function is told to give up; reads, writes and finish() fail with errc::operation_canceled.
	void cancel() {
		this->end_->home().run([answer = answer_] { answer->cancel(); });
	}

private:
	std::shared_ptr<detail::Answer<Result>> answer_;
};
template <auto f>
using client_stream =
	client_stream_of<typename Function<f>::Out, typename Function<f>::In, Owned<typename Function<f>::Result>>;

namespace detail {

// Servers of level 1 end a connection when they see a frame of a stream, so they are asked first, once a connection.
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
	co_return rpc_error(errc::unknown_protocol_version,
		"the server has no streams: it is older than they are, or has them switched off");
}

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
		PendingAtHome<Result> pending(new Answer<Result>(connection), {&connection->thread()});
		pending->stream = StreamEnd::make(connection->thread(), *settings.window, item_max);
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
