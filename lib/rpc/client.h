// SPDX-License-Identifier: Apache-2.0
// Client: calls functions of one server, over TCP or, after init_ibv(), over RDMA.
//
//     coro_rpc_client client{};
//     client.init_ibv();
//     co_await client.connect("127.0.0.1:9000");
//     auto result = co_await client.call<echo>("hello rdma");  // expected<std::string, rpc_error>
//
// call() returns values that own their memory, for example a std::string for a function that
// returns a std::string_view. The result of send_request() keeps the response's memory and may have
// views into it. open_stream() calls a function that reads and writes items (stream.h).
//
// Threads: send_request(), open_stream(), ping(), rdma(), counters(), close(), has_closed(),
//   get_pipeline_size() and get_executor() are thread-safe. call(), call_by_name(), call_by_key()
//   and the attachment members share state, so only one caller may use them at a time. init_*() and
//   connect() must not run concurrently with other members. A client belongs to one I/O thread. A
//   coroutine that awaits the client's tasks continues on the I/O thread on which it ran, or on the
//   client's if it did not run on an I/O thread.
// Lifetime: the I/O thread must outlive the client. Calls in progress may outlive it: they fail
//   with errc::operation_canceled.
// Errors: rpc_result<T>, an std::expected with an rpc_error; see errors.h for the codes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "lib/rpc/client_call.h"
#include "lib/rpc/client_stream.h"

namespace verbena::rpc {

class Client {
public:
	using config = client_config;

	// Creates a client without a connection, on the given I/O thread.
	explicit Client(IoThread& thread = IoThreads::of_process().next())
		: state_(std::make_shared<detail::ClientState>()), connection_(std::make_shared<ClientConnection>(thread)) {}
	Client(const Client&) = delete;
	Client& operator=(const Client&) = delete;
	~Client() { close(); }

	// Replaces the settings. The request timeout and the stream window take effect at the next call
	// or stream; the other settings take effect at the next connect().
	void init_config(config settings) { config_ = std::move(settings); }
	// Makes the next connect() use RDMA instead of TCP. The set-up is then always in TLS.
	void init_ibv(ibv_config settings = {}) { ibv_ = std::move(settings); }
	// Makes the next connect() use TLS instead of plain text.
	void init_ssl(ssl_config settings = {}) { ssl_ = std::move(settings); }

	// Connects to "host:port" or "[v6]:port" (port 9001 if it is absent), and closes the present
	// connection first. `patience` replaces connect_timeout_duration; 0: no limit.
	// Errors: not_connected, timed_out, open_error (identity, device or options) and
	// operation_canceled (close() or another connect() came in between); error_text() says why.
	Lazy<err_code> connect(std::string address, std::optional<std::chrono::milliseconds> patience = {}) {
		return connect(std::move(address), std::string(), patience);
	}
	Lazy<err_code> connect(std::string host, std::string port, std::optional<std::chrono::milliseconds> patience = {}) {
		ClientConnection::Target target{.host = std::move(host),
			.port = std::move(port),
			.ibv = ibv_,
			.ssl = ssl_,
			.patience = patience.value_or(config_.connect_timeout_duration),
			.limits = config_.limits,
			.unsent_max = config_.unsent_max,
			.coalesce = config_.coalesce};
		return ClientConnection::connect(connection_, std::move(target));
	}
	Lazy<err_code> connect() { return connect(config_.host, config_.port); }

	// Calls `f` and waits for its result. Arguments that are lvalues, and views, are referenced and
	// not copied: they must live until the call is over. The call waits while `unsent_max` bytes
	// are unsent; this wait counts towards the call's timeout. The timeout is `patience` or the one
	// in `settings`, or else that of the client's settings; 0 or less means none. When the timeout
	// expires, the client asks the server to cancel the call.
	template <auto f, class... Arguments>
	Lazy<rpc_result<Owned<typename Function<f>::Result>>> call(Arguments&&... arguments) {
		return call_with<f>(
			take_options(Function<f>::id, config_.request_timeout_duration), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class Rep, class Period, class... Arguments>
	Lazy<rpc_result<Owned<typename Function<f>::Result>>> call_for(
		std::chrono::duration<Rep, Period> patience, Arguments&&... arguments) {
		return call_with<f>(take_options(Function<f>::id, patience), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<rpc_result<Owned<typename Function<f>::Result>>> call(request_config_t settings, Arguments&&... arguments) {
		return call_with<f>(options_of(Function<f>::id, settings), std::forward<Arguments>(arguments)...);
	}
	// Calls a function by its name, or by the key under which it is registered. The result is read
	// as an `R`. Nothing checks the arguments' types before the server does. All arguments are
	// referenced, also temporaries: they must live until the call is over.
	template <class R = void, class... Arguments>
	Lazy<rpc_result<R>> call_by_name(std::string_view name, const Arguments&... arguments) {
		return call_by_key<R>(function_id(name), arguments...);
	}
	template <class R = void, class... Arguments>
	Lazy<rpc_result<R>> call_by_key(std::uint32_t key, const Arguments&... arguments) {
		return detail::run_call<R, detail::ByName<Arguments>...>(
			connection_, state_, take_options(key, config_.request_timeout_duration), arguments...);
	}

	// Sends a request without waiting for its response. Returns an outer task whose result is an
	// inner task. Awaiting the outer task waits until the request is sent; its arguments and its
	// attachment may be reused then. Awaiting the inner task waits for the response. Any number of
	// requests may be in flight, and responses arrive in any order. Destroying the inner task
	// cancels the call.
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request(Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, {}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class Rep, class Period, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request_for(
		std::chrono::duration<Rep, Period> patience, Arguments&&... arguments) {
		return send_with<f>(
			options_of(Function<f>::id, {.request_timeout_duration = patience}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request_with_attachment(
		std::string_view attachment, Arguments&&... arguments) {
		return send_with<f>(
			options_of(Function<f>::id, {.request_attachment = attachment}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request(
		request_config_t settings, Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, settings), std::forward<Arguments>(arguments)...);
	}

	// Calls a function that has a stream. Succeeds as soon as the request is queued; read() and
	// finish() of the stream return an error of the function. Before the first stream of a
	// connection, the client asks the server whether it supports streams; if it does not, the error
	// is unknown_protocol_version.
	template <auto f, class... Arguments> Lazy<rpc_result<client_stream<f>>> open_stream(Arguments&&... arguments) {
		return open_with<f>({}, std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<rpc_result<client_stream<f>>> open_stream(stream_config_t settings, Arguments&&... arguments) {
		return open_with<f>(settings, std::forward<Arguments>(arguments)...);
	}

	// Sets the attachment of the next call(). The bytes are not copied: they must stay unchanged
	// until that call is over.
	void set_req_attachment(std::string_view bytes) { state_->request_attachment = bytes; }
	// Sets the buffer into which the attachment of the next call()'s response is copied if it fits.
	void set_resp_attachment_buf(std::span<char> room) { state_->response_room = room; }
	// Returns the attachment of the last call()'s response. The view dangles after the next call().
	std::string_view get_resp_attachment() const {
		return {reinterpret_cast<const char*>(state_->response_attachment.data()), state_->response_attachment.size()};
	}
	// Returns a copy of get_resp_attachment().
	std::string release_resp_attachment() const { return std::string(get_resp_attachment()); }

	// Closes the connection. Calls in progress fail with errc::operation_canceled.
	void close() {
		if (connection_) connection_->thread().run([connection = connection_] { connection->close(); });
	}
	// True before connect(), after close(), after the connection broke, and while the server is
	// stopping.
	bool has_closed() const { return !connection_->connected(); }
	// The number of calls and streams in flight.
	std::size_t get_pipeline_size() const { return connection_->in_flight(); }
	IoThread& get_executor() const { return connection_->thread(); }
	// One sentence about the last failure. Read it after a failed connect(), not during one.
	const std::string& error_text() const { return connection_->reason(); }
	// Transport, device and peer of the connection. Valid after connect().
	const channel::Path& path() const { return connection_->path(); }
	// The pool of registered memory for attachments that are sent without a copy; null over TCP.
	// Call memory() and use the pool on the client's I/O thread only. The pool belongs to that
	// thread, not to the connection.
	channel::MemoryPool* memory() const { return connection_->memory(); }
	// Returns whether the server answers within `patience`. The server's coroutines and callbacks
	// do not delay the answer while they wait; a plain function that blocks the connection's thread
	// does.
	Lazy<bool> ping(std::chrono::milliseconds patience = std::chrono::milliseconds(1'000)) {
		return ClientConnection::ping(connection_, detail::patience_of(patience));
	}
	// Returns the RDMA memory and counters of all connections on the client's I/O thread.
	Lazy<RdmaUse> rdma() const { return ClientConnection::rdma(connection_); }
	// Returns the counts of what the present connection has sent; zeros without a connection.
	Lazy<OutboxCounters> counters() const { return ClientConnection::counters(connection_); }

private:
	template <auto f, class... Arguments> auto call_with(detail::CallOptions options, Arguments&&... arguments) {
		static_assert(!Function<f>::is_stream, "this RPC function has a stream: open_stream() it");
		if constexpr (detail::fit<f, Arguments...>())
			return detail::carry<f>(
				[&]<class... Carried>(detail::Types<Carried...>) {
					return detail::run_call<Owned<typename Function<f>::Result>, Carried...>(
						connection_, state_, options, static_cast<Carried>(std::forward<Arguments>(arguments))...);
				},
				detail::Types<Arguments...>());
	}
	template <auto f, class... Arguments> auto send_with(detail::CallOptions options, Arguments&&... arguments) {
		static_assert(!Function<f>::is_stream, "this RPC function has a stream: open_stream() it");
		if constexpr (detail::fit<f, Arguments...>())
			return detail::carry<f>(
				[&]<class... Carried>(detail::Types<Carried...>) {
					return detail::run_request<typename Function<f>::Result, Carried...>(
						connection_, options, static_cast<Carried>(std::forward<Arguments>(arguments))...);
				},
				detail::Types<Arguments...>());
	}
	template <auto f, class... Arguments> auto open_with(stream_config_t settings, Arguments&&... arguments) {
		if (!settings.window) settings.window = config_.stream_window;
		static_assert(Function<f>::is_stream, "this RPC function has no stream: call() it");
		if constexpr (detail::fit<f, Arguments...>())
			return detail::carry<f>(
				[&]<class... Carried>(detail::Types<Carried...>) {
					return detail::run_open<f, Carried...>(connection_, settings, config_.limits.body_max,
						static_cast<Carried>(std::forward<Arguments>(arguments))...);
				},
				detail::Types<Arguments...>());
	}
	// Moves the client's attachment and response buffer into the options, because both apply to one
	// call only.
	detail::CallOptions take_options(std::uint32_t function, std::chrono::nanoseconds patience) {
		return {.function = function,
			.patience = detail::patience_of(patience),
			.attachment = std::exchange(state_->request_attachment, {}),
			.attachment_room = std::exchange(state_->response_room, {})};
	}
	detail::CallOptions options_of(std::uint32_t function, const request_config_t& settings) const {
		return {.function = function,
			.patience =
				detail::patience_of(settings.request_timeout_duration.value_or(config_.request_timeout_duration)),
			.attachment = settings.request_attachment,
			.attachment_room = settings.resp_attachment_buf,
			.place = settings.request_place};
	}

	config config_;
	std::optional<ibv_config> ibv_;
	std::optional<ssl_config> ssl_;
	std::shared_ptr<detail::ClientState> state_;
	std::shared_ptr<ClientConnection> connection_;
};

}  // namespace verbena::rpc
