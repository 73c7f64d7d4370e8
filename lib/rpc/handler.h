// SPDX-License-Identifier: Apache-2.0
// make_handler(): wraps a function as a Handler, which reads the arguments of a request, calls the
// function, and sends its result or its exception as the response.
//
// Threads: a Handler runs on its connection's I/O thread; a coroutine may leave that thread, and
//   returns to it to answer.
// Errors: arguments that cannot be read are answered as errc::invalid_rpc_arguments. An rpc_error
//   that the function throws is the response; any other exception is answered with its text as
//   errc::rpc_throw_exception.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "lib/rpc/function.h"
#include "lib/rpc/server_connection.h"
#include "lib/rpc/stream.h"

namespace verbena::rpc {
namespace detail {

// Sets get_context() of this thread for as long as it exists.
class Running {
public:
	explicit Running(context_info_t& info) : before_(swap_context(&info)) {}
	~Running() { swap_context(before_); }
	Running(const Running&) = delete;

private:
	context_info_t* before_;
};

// Converts the exception that is being handled into the error for the caller.
inline rpc_error error_of_exception() {
	try {
		throw;
	} catch (const rpc_error& error) {
		return error;
	} catch (const std::exception& error) {
		return {errc::rpc_throw_exception, error.what()};
	} catch (...) {
		return {errc::rpc_throw_exception, "the function threw something that is not a std::exception"};
	}
}

inline rpc_error wrong_arguments(const Incoming& incoming) {
	if (incoming.unpacker.exceeded())
		return {errc::message_too_large,
			"the arguments would take more memory than this server allows for a call (decoded_max)"};
	return {errc::invalid_rpc_arguments,
		"the arguments cannot be read as the parameters of " + std::string(incoming.function)};
}

// Calls `f`, as a member of *object if it is a member function.
template <auto f, class... Parameters> decltype(auto) call_function(void* object, Parameters&&... parameters) {
	if constexpr (Function<f>::is_member)
		return (static_cast<typename Function<f>::Class*>(object)->*f)(std::forward<Parameters>(parameters)...);
	else return f(std::forward<Parameters>(parameters)...);
}

// Calls `f` with `first` (a context or a stream) and then the arguments, which are moved into
// parameters that it takes by value.
template <auto f, class... First>
decltype(auto) call_with(void* object, typename Function<f>::Arguments& arguments, First&&... first) {
	using Declared = typename Function<f>::Declared;
	return [&]<std::size_t... i>(std::index_sequence<i...>) -> decltype(auto) {
		return call_function<f>(object, std::forward<First>(first)...,
			static_cast<std::tuple_element_t<i, Declared>&&>(std::get<i>(arguments))...);
	}(std::make_index_sequence<Function<f>::parameters>());
}

// The coroutine that runs a handler which is itself a coroutine, from its first step to its answer.
//
// Owns: a share of the AsyncCall, so that the call lives as long as the frame.
// Lifetime: it starts at once and destroys its frame when it ends. Until then call->frame refers to
//   it, by which ServerConnection::abandon_calls() destroys it earlier.
struct HandlerRun {
	struct promise_type {
		template <class... Rest> explicit promise_type(std::shared_ptr<AsyncCall>& call, Rest&...) {
			call->frame = std::coroutine_handle<promise_type>::from_promise(*this);
		}
		HandlerRun get_return_object() { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		[[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
	};
};

// Runs the handler and answers. `first`: the stream of a function that has one, else nothing.
template <auto f, class... First>
HandlerRun run_coroutine(
	std::shared_ptr<AsyncCall> call, void* object, typename Function<f>::Arguments arguments, First... first) {
	using Result = typename Function<f>::Result;
	std::optional<rpc_error> error;
	Buffer body;
	try {
		if constexpr (std::is_void_v<Result>) {
			co_await call_with<f>(object, arguments, std::move(first)...);
		} else {
			// A result that is a view may point into the function's frame: `running` keeps it until
			// the result is packed.
			auto running = call_with<f>(object, arguments, std::move(first)...);
			const Result result = co_await std::move(running);
			pack_value(body, result);
		}
	} catch (...) {
		error = error_of_exception();
	}
	co_await call->home().on();  // call->frame is accessed on the connection's thread only
	call->frame = {};
	if (error) call->answer(*error);
	else call->answer(std::move(body));
}

// Runs a plain function and writes its response at once. Its views point into the message on the
// reader's stack, so that nothing is copied.
template <auto f> void invoke_plain(Incoming& incoming) {
	using Result = typename Function<f>::Result;
	context_info_t info(incoming.connection, incoming.function, incoming.frame, &incoming.arrived);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, incoming.frame.body, arguments))
		return incoming.connection.respond(info, wrong_arguments(incoming));
	const Running running(info);
	try {
		if constexpr (std::is_void_v<Result>) {
			call_with<f>(incoming.object, arguments);
			incoming.connection.respond(info, errc::ok, [](Buffer&) {});
		} else {
			decltype(auto) result = call_with<f>(incoming.object, arguments);
			incoming.connection.respond(info, errc::ok, [&](Buffer& body) { pack_value(body, result); });
		}
	} catch (...) {
		incoming.connection.respond(info, error_of_exception());
	}
}

// The other kinds have an AsyncCall, which keeps the request. Their arguments are read from the
// bytes that it keeps, as their views must outlive this function.
template <auto f> void invoke_coroutine(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, call->body(), arguments)) return call->answer(wrong_arguments(incoming));
	call->hold(incoming.unpacker.cost());
	const Running running(call->info());
	run_coroutine<f>(std::move(call), incoming.object, std::move(arguments));
}

template <auto f> void invoke_stream(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, call->body(), arguments)) return call->answer(wrong_arguments(incoming));
	call->hold(incoming.unpacker.cost());
	stream<typename Function<f>::In, typename Function<f>::Out> items(incoming.connection.begin_stream(*call));
	const Running running(call->info());
	run_coroutine<f>(std::move(call), incoming.object, std::move(arguments), std::move(items));
}

template <auto f> void invoke_callback(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, call->body(), arguments)) return call->answer(wrong_arguments(incoming));
	call->hold(incoming.unpacker.cost());
	const Running running(call->info());
	try {
		call_with<f>(incoming.object, arguments, context<typename Function<f>::Result>(call));
	} catch (...) {
		call->answer(error_of_exception());
	}
}

}  // namespace detail

// `object`: for a member function the object to call it on, which must outlive the Handler.
template <auto f> Handler make_handler(void* object = nullptr) {
	Function<f>::check_handler();
	Handler handler{.invoke = nullptr,
		.object = object,
		.name = std::string(Function<f>::name),
		.is_stream = Function<f>::is_stream};
	if constexpr (Function<f>::is_stream) handler.invoke = detail::invoke_stream<f>;
	else if constexpr (Function<f>::is_callback) handler.invoke = detail::invoke_callback<f>;
	else if constexpr (Function<f>::is_coroutine) handler.invoke = detail::invoke_coroutine<f>;
	else handler.invoke = detail::invoke_plain<f>;
	return handler;
}

}  // namespace verbena::rpc
