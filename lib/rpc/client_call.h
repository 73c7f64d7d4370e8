// SPDX-License-Identifier: Apache-2.0
// One call of a client, in parts: its options, the passing of its arguments, its result.
// Included by client.h and client_stream.h; a program uses request_config_t and the result types.
//
// Threads: run_call() and run_request() may be awaited from any thread: they visit the connection's
//   I/O thread and return to the caller's. The other functions in detail run on the connection's.
// Lifetime: an Answer of send_request() is deleted on its connection's thread (DeleteOnIoThread).
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

// The settings of one request, which take precedence over the client's.
struct request_config_t {
	// 0: no timeout. Absent: the client's request_timeout_duration.
	std::optional<std::chrono::nanoseconds> request_timeout_duration;
	// Not copied: it must stay unchanged until the request is sent, or for call() until it is over.
	std::string_view request_attachment;
	// The response's attachment is copied here if it fits. The buffer must outlive the call.
	std::span<char> resp_attachment_buf;
	// Replaces request_attachment: memory from the client's memory(), which the server fetches
	// without a copy. The Place must live until the request is sent; the bytes must stay unchanged
	// until the call is over.
	const channel::Place* request_place = nullptr;
};

namespace detail {
template <class T> class Answer;
}

// The result of send_request(): the value, and the memory of the message that holds it.
//
// Lifetime: views in result() and get_attachment() are valid as long as this object, and must not
//   outlive the client's I/O thread.
template <class T> class async_rpc_result_value_t {
public:
	const T& result() const { return value_; }
	T& result() { return value_; }
	std::string_view get_attachment() const {
		return {reinterpret_cast<const char*>(attachment_.data()), attachment_.size()};
	}
	std::string release_attachment() const { return std::string(get_attachment()); }
	template <class U> friend bool operator==(const async_rpc_result_value_t& left, const U& right) {
		return left.value_ == right;
	}

private:
	friend class detail::Answer<T>;
	T value_{};
	std::span<const std::byte> attachment_;
	MessageShare share_;
};
template <> class async_rpc_result_value_t<void> {
public:
	std::string_view get_attachment() const {
		return {reinterpret_cast<const char*>(attachment_.data()), attachment_.size()};
	}
	std::string release_attachment() const { return std::string(get_attachment()); }

private:
	friend class detail::Answer<void>;
	std::span<const std::byte> attachment_;
	MessageShare share_;
};
template <class T> using async_rpc_result = rpc_result<async_rpc_result_value_t<T>>;

namespace detail {

// A pending call whose result is read as a T; for void the body must be empty.
template <class T> class Answer final : public Pending {
public:
	using Pending::Pending;
	rpc_result<T> result() {
		if (error) return std::unexpected(std::move(error));
		if constexpr (std::is_void_v<T>) return {};
		else return std::move(value_);
	}
	// The same with the message, for results that may hold views into it.
	async_rpc_result<T> result_with_memory() {
		if (error) return std::unexpected(std::move(error));
		async_rpc_result_value_t<T> all;
		if constexpr (!std::is_void_v<T>) all.value_ = std::move(value_);
		all.attachment_ = attachment;
		all.share_ = std::move(share);
		return all;
	}
	bool keep_message = false;  // T may hold views: keep the message until the result is gone

private:
	bool take(std::span<const std::byte> body, Unpacker& unpacker) override {
		if constexpr (std::is_void_v<T>) return body.empty();
		else return unpack_value(unpacker, body, value_);
	}
	bool keeps_message() const override { return keep_message; }
	std::conditional_t<std::is_void_v<T>, char, T> value_{};
};

// Deletes a Pending on its connection's thread, from any thread.
struct DeleteOnIoThread {
	IoThread* home;
	void operator()(Pending* pending) const {
		home->run([pending] { delete pending; });
	}
};
template <class T> using PendingOnIoThread = std::unique_ptr<Answer<T>, DeleteOnIoThread>;

// The type by which an argument is passed to the coroutine that packs it, possibly on another
// thread: a view or a reference to an lvalue, which outlives the call; a temporary by value.
template <class Parameter, class Argument> struct Carried {
	using P = std::remove_cvref_t<Parameter>;
	using A = std::remove_cvref_t<Argument>;
	static constexpr bool is_text = std::is_same_v<P, std::string> || std::is_same_v<P, std::string_view>;
	static constexpr bool stays = std::is_lvalue_reference_v<Argument>;
	using Type = std::conditional_t<is_text && (stays || !std::is_same_v<A, std::string>), std::string_view,
		std::conditional_t<is_text, std::string, std::conditional_t<stays && std::is_same_v<A, P>, const P&, P>>>;
};

// The same for calls by name or key, where the parameter types are unknown: text as a view, the
// rest by reference, temporaries too.
template <class A>
using ByName = std::conditional_t<std::is_convertible_v<const A&, std::string_view>, std::string_view, const A&>;

template <class...> struct Types {};
// Calls `use` with the Carried types of these arguments for the parameters of `f`.
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

// Returns whether these arguments fit the parameters of `f`; if not, a static_assert says why.
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
	Nanoseconds patience = never;  // the time left for the call; 0: it has expired
	std::string_view attachment;
	std::span<char> attachment_room;
	const channel::Place* place = nullptr;
};

// The attachment members of a client, which call() takes its attachments from and leaves the
// response's in. Shared with the coroutine of the call, which may outlive the client.
struct ClientState {
	std::string_view request_attachment;
	std::span<char> response_room;
	std::span<const std::byte> response_attachment;
	MessageShare response_share;
};

// Converts a user's timeout, in which 0 or less means none.
inline Nanoseconds patience_of(std::chrono::nanoseconds timeout) {
	return timeout.count() <= 0 ? never : static_cast<Nanoseconds>(timeout.count());
}

// Puts the request into the outbox, on the connection's thread. False: `pending` has failed, and
// its error says why.
template <class... Carried>
bool send_call(
	ClientConnection& connection, Pending& pending, const CallOptions& options, const Carried&... arguments) {
	if (const err_code code = connection.usable()) {
		pending.fail(
			rpc_error(code.ec, connection.reason().empty() ? std::string(code.message()) : connection.reason()));
		return false;
	}
	if (options.patience == 0) {
		pending.fail(rpc_error(errc::timed_out));
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
	Attachment attachment =
		options.place != nullptr ? registered_attachment(*options.place) : view_attachment(options.attachment);
	return connection.submit(pending, draft, std::move(attachment), options.patience);
}

// Client::call(). Destroying this coroutine while it waits cancels the call: see ~Pending().
template <class T, class... Carried>
Lazy<rpc_result<T>> run_call(std::shared_ptr<ClientConnection> connection, std::shared_ptr<ClientState> state,
	CallOptions options, Carried... arguments) {
	IoThread::Visit visit(connection->thread());
	co_await visit.there();
	if (connection->crowded()) options.patience = co_await connection->until_room(options.patience);
	std::optional<rpc_result<T>> result;
	{
		Answer<T> pending(connection);
		if (send_call(*connection, pending, options, arguments...)) co_await pending;
		state->response_attachment = pending.attachment;
		state->response_share = std::move(pending.share);
		result.emplace(pending.result());
	}
	co_await visit.back();
	co_return std::move(*result);
}

// The second half of Client::send_request(): waits for the response.
template <class T>
Lazy<async_rpc_result<T>> wait_for_answer(std::shared_ptr<ClientConnection> connection, PendingOnIoThread<T> pending) {
	IoThread::Visit visit(connection->thread());
	co_await visit.there();
	Answer<T>& answer = *pending;
	co_await answer;
	auto result = answer.result_with_memory();
	pending.reset();
	co_await visit.back();
	co_return std::move(result);
}

// The first half: waits until the request and its attachment are sent. A failure to send is kept in
// the pending call, so the second half returns it.
template <class T, class... Carried>
Lazy<Lazy<async_rpc_result<T>>> run_request(
	std::shared_ptr<ClientConnection> connection, CallOptions options, Carried... arguments) {
	IoThread::Visit visit(connection->thread());
	co_await visit.there();
	if (connection->crowded()) options.patience = co_await connection->until_room(options.patience);
	PendingOnIoThread<T> pending(new Answer<T>(connection), {&connection->thread()});
	pending->keep_message =
		is_view<T> || !(std::is_arithmetic_v<T> || std::is_void_v<T> || std::is_same_v<T, std::string>);
	if (send_call(*connection, *pending, options, arguments...))
		while (connection->unsent(*pending)) co_await connection->until_progress();
	co_await visit.back();
	co_return wait_for_answer<T>(std::move(connection), std::move(pending));
}

}  // namespace detail

}  // namespace verbena::rpc
