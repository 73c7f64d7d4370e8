// Client: calls functions at a server, over TCP or, after init_ibv(), RDMA.
//
//     coro_rpc_client client{};
//     client.init_ibv();
//     co_await client.connect("127.0.0.1:9000");
//     auto result = co_await client.call<echo>("hello rdma");     // expected<std::string, rpc_error>
//
// A client belongs to one I/O thread; a coroutine that awaits a call comes back to its own, if that is an I/O thread,
// and else goes on there. send_request() may be called from any thread and any number of times together; call() and the
// attachment members are for one caller at a time. Calls that were begun outlive the client: they fail.
//
// call() gives values that own their memory: a std::string for a function that returns a std::string_view.
// send_request() gives a result that holds the answer's memory, with views into it. open_stream() calls a function that
// reads and writes items (stream.h).
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

	explicit Client(IoThread& thread = IoThreads::of_process().next())
		: state_(std::make_shared<detail::ClientState>()), connection_(std::make_shared<ClientConnection>(thread)) {}
	Client(const Client&) = delete;
	Client& operator=(const Client&) = delete;
	~Client() { close(); }

	void init_config(config settings) { config_ = std::move(settings); }
	void init_ibv(ibv_config settings = {}) { ibv_ = std::move(settings); }
	void init_ssl(ssl_config settings = {}) { ssl_ = std::move(settings); }

	// "host:port", "[v6]:port"; also instead of a connection that it has. error_text() says in a sentence why it
	// failed.
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

	// One call: its result, or why there is none.
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
	// A function that is known by its name, or by the key that it is registered under: `R` is what its result is read
	// as.
	template <class R = void, class... Arguments>
	Lazy<rpc_result<R>> call_by_name(std::string_view name, const Arguments&... arguments) {
		return call_by_key<R>(function_id(name), arguments...);
	}
	template <class R = void, class... Arguments>
	Lazy<rpc_result<R>> call_by_key(std::uint32_t key, const Arguments&... arguments) {
		return detail::run_call<R, detail::ByName<Arguments>...>(
			connection_, state_, take_options(key, config_.request_timeout_duration), arguments...);
	}

	// Two waits: until the request is sent (its memory may be used again), and until the answer is there.
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

	// A function that has a stream: begun when this is done, whatever becomes of it then.
	template <auto f, class... Arguments> Lazy<rpc_result<client_stream<f>>> open_stream(Arguments&&... arguments) {
		return open_with<f>({}, std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<rpc_result<client_stream<f>>> open_stream(stream_config_t settings, Arguments&&... arguments) {
		return open_with<f>(settings, std::forward<Arguments>(arguments)...);
	}

	// For the next call(). The bytes stay where they are until it is done.
	void set_req_attachment(std::string_view bytes) { state_->request_attachment = bytes; }
	void set_resp_attachment_buf(std::span<char> room) { state_->response_room = room; }
	// Of the last call(), until the next one.
	std::string_view get_resp_attachment() const {
		return {reinterpret_cast<const char*>(state_->response_attachment.data()), state_->response_attachment.size()};
	}
	std::string release_resp_attachment() const { return std::string(get_resp_attachment()); }

	void close() {
		if (connection_) connection_->thread().run([connection = connection_] { connection->close(); });
	}
	bool has_closed() const { return !connection_->connected(); }
	std::size_t get_pipeline_size() const { return connection_->in_flight(); }
	IoThread& get_executor() const { return connection_->thread(); }
	const std::string& error_text() const { return connection_->reason(); }  // after a failed connect()
	const channel::Path& path() const { return connection_->path(); }        // after connect()
	// Registered memory for attachments that are not copied; null over TCP. On the client's I/O thread, after
	// connect().
	channel::MemoryPool* memory() const { return connection_->memory(); }
	// Whether the server answers, which it does also while its functions are busy elsewhere.
	Lazy<bool> ping(std::chrono::milliseconds patience = std::chrono::milliseconds(1'000)) {
		return ClientConnection::ping(connection_, detail::patience_of(patience));
	}
	// Of all connections on its I/O thread.
	Lazy<RdmaUse> rdma() const { return ClientConnection::rdma(connection_); }
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
