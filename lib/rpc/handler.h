// How a function becomes a Handler: reads the arguments, calls it, sends what it gives back or throws.
//
// An rpc_error that is thrown is the answer; any other exception is answered with its text as
// errc::rpc_throw_exception.
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

// get_context() while a handler runs.
class Running {
public:
	explicit Running(context_info_t& info) : before_(swap_context(&info)) {}
	~Running() { swap_context(before_); }
	Running(const Running&) = delete;

private:
	context_info_t* before_;
};

// Within a catch: what the caller gets.
inline rpc_error error_of_exception() {
	try {
		throw;
	} catch (const rpc_error& error) {
		return error;
	} catch (const std::exception& error) {
		return {errc::rpc_throw_exception, error.what()};
	} catch (...) {
		return {errc::rpc_throw_exception, "the function threw something that is no std::exception"};
	}
}

inline rpc_error wrong_arguments(std::string_view function) {
	return {errc::invalid_rpc_arguments, "the arguments cannot be read as the parameters of " + std::string(function)};
}

template <auto f, class... Parameters> decltype(auto) call_function(void* object, Parameters&&... parameters) {
	if constexpr (Function<f>::is_member)
		return (static_cast<typename Function<f>::Class*>(object)->*f)(std::forward<Parameters>(parameters)...);
	else return f(std::forward<Parameters>(parameters)...);
}

// The arguments as the function declares them: moved into what it takes by value.
template <auto f, class... First>
decltype(auto) call_with(void* object, typename Function<f>::Arguments& arguments, First&&... first) {
	using Declared = typename Function<f>::Declared;
	return [&]<std::size_t... i>(std::index_sequence<i...>) -> decltype(auto) {
		return call_function<f>(object, std::forward<First>(first)...,
			static_cast<std::tuple_element_t<i, Declared>&&>(std::get<i>(arguments))...);
	}(std::make_index_sequence<Function<f>::parameters>());
}

// A handler that is a coroutine, from its first step until its answer. Its frame is the AsyncCall's as long as it
// stands.
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

// `first`: the stream, of a function that has one.
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
			// A result that is a view may point into the function's own frame.
			auto running = call_with<f>(object, arguments, std::move(first)...);
			const Result result = co_await std::move(running);
			pack_value(body, result);
		}
	} catch (...) {
		error = error_of_exception();
	}
	co_await call->home().on();
	call->frame = {};
	if (error) call->answer(*error);
	else call->answer(std::move(body));
}

template <auto f> void invoke_plain(Incoming& incoming) {
	using Result = typename Function<f>::Result;
	context_info_t info(incoming.connection, incoming.function, incoming.frame, &incoming.arrived);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, incoming.frame.body, arguments))
		return incoming.connection.respond(info, wrong_arguments(incoming.function));
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

template <auto f> void invoke_coroutine(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, incoming.arrived.kept(incoming.frame.body), arguments))
		return call->answer(wrong_arguments(incoming.function));
	const Running running(call->info());
	run_coroutine<f>(std::move(call), incoming.object, std::move(arguments));
}

template <auto f> void invoke_stream(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, incoming.arrived.kept(incoming.frame.body), arguments))
		return call->answer(wrong_arguments(incoming.function));
	stream<typename Function<f>::In, typename Function<f>::Out> items(incoming.connection.begin_stream(*call));
	const Running running(call->info());
	run_coroutine<f>(std::move(call), incoming.object, std::move(arguments), std::move(items));
}

template <auto f> void invoke_callback(Incoming& incoming) {
	auto call = incoming.connection.begin_call(incoming);
	typename Function<f>::Arguments arguments;
	if (!unpack_arguments(incoming.unpacker, incoming.arrived.kept(incoming.frame.body), arguments))
		return call->answer(wrong_arguments(incoming.function));
	const Running running(call->info());
	try {
		call_with<f>(incoming.object, arguments, context<typename Function<f>::Result>(call));
	} catch (...) {
		call->answer(error_of_exception());
	}
}

}  // namespace detail

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
