// Client: calls functions at a server, over TCP or, after init_ibv(), RDMA.
//
//     coro_rpc_client client{};
//     client.init_ibv();
//     co_await client.connect("127.0.0.1:9000");
//     auto result = co_await client.call<echo>("hello rdma");     // expected<std::string, rpc_error>
//
// A client belongs to one I/O thread, on which its calls' coroutines go on. send_request() may be called from any thread and any number of
// times together; call() and the attachment members are for one caller at a time. Calls that were begun outlive the client: they fail.
//
// call() gives values that own their memory: a std::string for a function that returns a std::string_view. send_request() gives a result
// that holds the answer's memory, with views into it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "lib/rpc/client_connection.h"
#include "lib/rpc/function.h"
#include "lib/rpc/sync_wait.h"

namespace verbena::rpc {

// Of one request, in place of the client's settings.
struct request_config_t {
	std::optional<std::chrono::nanoseconds> request_timeout_duration;  // 0: none
	std::string_view request_attachment;                               // stays where it is until the request is sent
	std::span<char> resp_attachment_buf;                               // where the answer's attachment goes, if it fits
	// In place of request_attachment: registered memory of the client's memory(), which is not copied. It stays there until the call is
	// done.
	const channel::Place* request_place = nullptr;
};

namespace detail {
template <class T> class Answer;
}

// What send_request() gives: the result, and the memory of the answer.
template <class T> class async_rpc_result_value_t {
public:
	const T& result() const { return value_; }
	T& result() { return value_; }
	std::string_view get_attachment() const { return {reinterpret_cast<const char*>(attachment_.data()), attachment_.size()}; }
	std::string release_attachment() const { return std::string(get_attachment()); }
	template <class U> friend bool operator==(const async_rpc_result_value_t& left, const U& right) { return left.value_ == right; }

private:
	friend class detail::Answer<T>;
	T value_{};
	std::span<const std::byte> attachment_;
	MessageShare share_;
};
template <> class async_rpc_result_value_t<void> {
public:
	std::string_view get_attachment() const { return {reinterpret_cast<const char*>(attachment_.data()), attachment_.size()}; }
	std::string release_attachment() const { return std::string(get_attachment()); }

private:
	friend class detail::Answer<void>;
	std::span<const std::byte> attachment_;
	MessageShare share_;
};
template <class T> using async_rpc_result = rpc_result<async_rpc_result_value_t<T>>;

namespace detail {

// A pending call whose answer is read as T; void reads nothing.
template <class T> class Answer final : public Pending {
public:
	using Pending::Pending;
	rpc_result<T> result() {
		if (error) return std::unexpected(std::move(error));
		if constexpr (std::is_void_v<T>) return {};
		else return std::move(value_);
	}
	async_rpc_result<T> result_with_memory() {
		if (error) return std::unexpected(std::move(error));
		async_rpc_result_value_t<T> all;
		if constexpr (!std::is_void_v<T>) all.value_ = std::move(value_);
		all.attachment_ = attachment;
		all.share_ = std::move(share);
		return all;
	}
	bool keep_message = false;

private:
	bool take(std::span<const std::byte> body, Unpacker& unpacker) override {
		if constexpr (std::is_void_v<T>) return body.empty();
		else return unpack_value(unpacker, body, value_);
	}
	bool keeps_message() const override { return keep_message; }
	std::conditional_t<std::is_void_v<T>, char, T> value_{};
};

// Goes on its connection's thread, whoever lets go of it.
struct DeleteAtHome {
	IoThread* home;
	void operator()(Pending* pending) const {
		home->run([pending] { delete pending; });
	}
};
template <class T> using PendingAtHome = std::unique_ptr<Answer<T>, DeleteAtHome>;

// How an argument travels to the coroutine that packs it: a view or a reference where the caller's value stays, else a value.
template <class Parameter, class Argument> struct Carried {
	using P = std::remove_cvref_t<Parameter>;
	using A = std::remove_cvref_t<Argument>;
	static constexpr bool is_text = std::is_same_v<P, std::string> || std::is_same_v<P, std::string_view>;
	static constexpr bool stays = std::is_lvalue_reference_v<Argument>;
	using Type = std::conditional_t<is_text && (stays || !std::is_same_v<A, std::string>), std::string_view,
		std::conditional_t<is_text, std::string, std::conditional_t<stays && std::is_same_v<A, P>, const P&, P>>>;
};

// The same where only the caller knows the types: text as a view, the rest by reference.
template <class A> using ByName = std::conditional_t<std::is_convertible_v<const A&, std::string_view>, std::string_view, const A&>;

template <class...> struct Types {};
template <auto f, class Use, class... Arguments> auto carry(Use use, Types<Arguments...>) {
	using Declared = typename Function<f>::Declared;
	if constexpr (sizeof...(Arguments) == std::tuple_size_v<Declared>) {
		return [&]<std::size_t... i>(std::index_sequence<i...>) {
			return use(Types<typename Carried<std::tuple_element_t<i, Declared>, Arguments&&>::Type...>());
		}(std::make_index_sequence<sizeof...(Arguments)>());
	}
}

template <class Declared, class Given> inline constexpr bool are_convertible = false;
template <class... P, class... A>
	requires(sizeof...(P) == sizeof...(A))
inline constexpr bool are_convertible<std::tuple<P...>, std::tuple<A...>> =
	(std::is_convertible_v<A, std::remove_cvref_t<P>> && ... && true);

// Whether these arguments fit; else the compiler says why not.
template <auto f, class... Arguments> constexpr bool fit() {
	using Declared = typename Function<f>::Declared;
	constexpr std::size_t given = sizeof...(Arguments), wanted = std::tuple_size_v<Declared>;
	static_assert(given >= wanted, "too few arguments for this RPC function");
	static_assert(given <= wanted, "too many arguments for this RPC function");
	constexpr bool convertible = given != wanted || are_convertible<Declared, std::tuple<Arguments&&...>>;
	static_assert(convertible, "an argument cannot be converted to its parameter of this RPC function");
	return given == wanted && convertible;
}

struct CallOptions {
	std::uint32_t function = 0;
	Nanoseconds patience = never;
	std::string_view attachment;
	std::span<char> attachment_room;
	const channel::Place* place = nullptr;
};

// What a client has between calls, for calls whose result holds no memory.
struct ClientState {
	std::string_view request_attachment;
	std::span<char> response_room;
	std::span<const std::byte> response_attachment;
	MessageShare response_share;
};

inline Nanoseconds patience_of(std::chrono::nanoseconds timeout) {
	return timeout.count() <= 0 ? never : static_cast<Nanoseconds>(timeout.count());
}

// On the connection's thread: the request into the outbox. False: `pending` has failed, and says why.
template <class... Carried>
bool send_call(ClientConnection& connection, Pending& pending, const CallOptions& options, const Carried&... arguments) {
	if (const err_code code = connection.usable()) {
		pending.fail(rpc_error(code.ec, connection.reason().empty() ? std::string(code.message()) : connection.reason()));
		return false;
	}
	FrameDraft draft = connection.begin(pending, options.function, options.patience);
	try {
		pack_arguments(draft.buffer(), arguments...);
	} catch (const std::exception& error) {
		connection.give_up(pending, draft);
		pending.fail(rpc_error(errc::invalid_rpc_arguments, error.what()));
		return false;
	}
	pending.attachment_room = std::as_writable_bytes(options.attachment_room);
	Attachment attachment = options.place != nullptr ? registered_attachment(*options.place) : view_attachment(options.attachment);
	return connection.submit(pending, draft, std::move(attachment), options.patience);
}

template <class T, class... Carried>
Lazy<rpc_result<T>> run_call(
	std::shared_ptr<ClientConnection> connection, std::shared_ptr<ClientState> state, CallOptions options, Carried... arguments) {
	co_await connection->thread().on();
	while (connection->crowded()) co_await connection->until_progress();
	Answer<T> pending(connection);
	if (send_call(*connection, pending, options, arguments...)) co_await pending;
	state->response_attachment = pending.attachment;
	state->response_share = std::move(pending.share);
	co_return pending.result();
}

template <class T> Lazy<async_rpc_result<T>> wait_for_answer(std::shared_ptr<ClientConnection> connection, PendingAtHome<T> pending) {
	co_await connection->thread().on();
	Answer<T>& answer = *pending;
	co_await answer;
	co_return answer.result_with_memory();
}

template <class T, class... Carried>
Lazy<Lazy<async_rpc_result<T>>> run_request(std::shared_ptr<ClientConnection> connection, CallOptions options, Carried... arguments) {
	co_await connection->thread().on();
	while (connection->crowded()) co_await connection->until_progress();
	PendingAtHome<T> pending(new Answer<T>(connection), {&connection->thread()});
	pending->keep_message = is_view<T> || !(std::is_arithmetic_v<T> || std::is_void_v<T> || std::is_same_v<T, std::string>);
	if (send_call(*connection, *pending, options, arguments...))
		while (connection->unsent(*pending) && !pending->done()) co_await connection->until_progress();
	co_return wait_for_answer<T>(std::move(connection), std::move(pending));
}

}  // namespace detail

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

	// "host:port", "[v6]:port"; also instead of a connection that it has. error_text() says in a sentence why it failed.
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
	template <auto f, class... Arguments> Lazy<rpc_result<Owned<typename Function<f>::Result>>> call(Arguments&&... arguments) {
		return call_with<f>(take_options(Function<f>::id, config_.request_timeout_duration), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class Rep, class Period, class... Arguments>
	Lazy<rpc_result<Owned<typename Function<f>::Result>>> call_for(std::chrono::duration<Rep, Period> patience, Arguments&&... arguments) {
		return call_with<f>(take_options(Function<f>::id, patience), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<rpc_result<Owned<typename Function<f>::Result>>> call(request_config_t settings, Arguments&&... arguments) {
		return call_with<f>(options_of(Function<f>::id, settings), std::forward<Arguments>(arguments)...);
	}
	// A function that is known by its name only: `R` is what its result is read as.
	template <class R = void, class... Arguments> Lazy<rpc_result<R>> call_by_name(std::string_view name, const Arguments&... arguments) {
		return detail::run_call<R, detail::ByName<Arguments>...>(
			connection_, state_, take_options(function_id(name), config_.request_timeout_duration), arguments...);
	}

	// Two waits: until the request is sent (its memory may be used again), and until the answer is there.
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request(Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, {}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class Rep, class Period, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request_for(
		std::chrono::duration<Rep, Period> patience, Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, {.request_timeout_duration = patience}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request_with_attachment(
		std::string_view attachment, Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, {.request_attachment = attachment}), std::forward<Arguments>(arguments)...);
	}
	template <auto f, class... Arguments>
	Lazy<Lazy<async_rpc_result<typename Function<f>::Result>>> send_request(request_config_t settings, Arguments&&... arguments) {
		return send_with<f>(options_of(Function<f>::id, settings), std::forward<Arguments>(arguments)...);
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
	// Registered memory for attachments that are not copied; null over TCP. On the client's I/O thread, after connect().
	channel::MemoryPool* memory() const { return connection_->memory(); }
	// Whether the server answers, which it does also while its functions are busy elsewhere.
	Lazy<bool> ping(std::chrono::milliseconds patience = std::chrono::milliseconds(1'000)) {
		return ClientConnection::ping(connection_, detail::patience_of(patience));
	}
	Lazy<OutboxCounters> counters() const { return ClientConnection::counters(connection_); }

private:
	template <auto f, class... Arguments> auto call_with(detail::CallOptions options, Arguments&&... arguments) {
		if constexpr (detail::fit<f, Arguments...>())
			return detail::carry<f>(
				[&]<class... Carried>(detail::Types<Carried...>) {
					return detail::run_call<Owned<typename Function<f>::Result>, Carried...>(
						connection_, state_, options, static_cast<Carried>(std::forward<Arguments>(arguments))...);
				},
				detail::Types<Arguments...>());
	}
	template <auto f, class... Arguments> auto send_with(detail::CallOptions options, Arguments&&... arguments) {
		if constexpr (detail::fit<f, Arguments...>())
			return detail::carry<f>(
				[&]<class... Carried>(detail::Types<Carried...>) {
					return detail::run_request<typename Function<f>::Result, Carried...>(
						connection_, options, static_cast<Carried>(std::forward<Arguments>(arguments))...);
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
			.patience = detail::patience_of(settings.request_timeout_duration.value_or(config_.request_timeout_duration)),
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
