// What a handler may know and say beside its parameters and result.
//
//     get_context()                     in a plain function, and in a coroutine or callback before its first wait
//     co_await get_context_in_coro()    in a coroutine, as its first statement
//     context<T>::get_context_info()    in a callback, as long as it has the context
//
// A context<T> goes where the program wants it, on any thread; its answer is sent by response_msg() or
// response_error(), once. If every copy goes without that, the caller gets an error. Contexts must be gone before their
// server is destroyed.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "lib/rpc/errors.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/stream_end.h"

namespace verbena::rpc {

class ServerConnection;

class context_info_t {
public:
	// The bytes that came beside the arguments. Good for as long as the call is unanswered.
	std::string_view get_request_attachment() const;
	std::string release_request_attachment() const { return std::string(get_request_attachment()); }
	// What goes back beside the result. A view is copied, unless it points into the request.
	void set_response_attachment(std::string&& bytes) { response_ = {.bytes = {}, .owner = std::move(bytes)}; }
	void set_response_attachment(std::string_view bytes);
	void set_response_attachment(const char* text) { set_response_attachment(std::string_view(text)); }
	// Registered memory, of memory(): it is not copied, and must stay as it is until the answer has gone. On the
	// connection's I/O thread.
	void set_response_attachment(channel::Place place) { response_ = registered_attachment(std::move(place)); }
	channel::MemoryPool* memory() const;  // null over TCP

	bool has_closed() const;   // nobody is there for the answer
	bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }  // its caller waits no more
	Nanoseconds deadline() const { return deadline_; }                               // when that will be; `never`
	void close() { closes_ = true; }  // the connection, once this call is over: behind its answer

	std::uint64_t get_connection_id() const;
	std::uint32_t get_request_id() const { return sequence_; }
	std::string_view get_rpc_function_name() const { return function_; }
	const std::string& get_remote_endpoint() const;
	std::string_view get_transport() const;  // "rc", "tcp", "tcp+tls"
	std::any& tag();       // of the connection, for the program

	context_info_t(const context_info_t&) = delete;
	context_info_t& operator=(const context_info_t&) = delete;
	~context_info_t();

	// For who executes calls: `arrived` is where the message of a plain function lies.
	context_info_t(ServerConnection& connection, std::string_view function, const Frame& frame, Arrived* arrived);

private:
	friend class ServerConnection;
	friend class AsyncCall;

	ServerConnection* connection_;
	std::string_view function_;
	std::uint32_t sequence_;
	Nanoseconds deadline_;
	std::span<const std::byte> attachment_;
	Arrived* arrived_;       // of a plain function: the message, on its caller's stack
	MessageShare share_;     // of the others
	Attachment response_;
	std::atomic<bool> cancelled_{false};
	bool closes_ = false;
};

// Null where no handler runs.
context_info_t* get_context();
// Whose handler runs on this thread from now on; returns whose did.
context_info_t* swap_context(context_info_t* with);

// A coroutine's context: to be asked before the coroutine waits for anything.
struct ContextInCoroutine {
	bool await_ready() const { return true; }
	void await_suspend(std::coroutine_handle<>) const {}
	context_info_t* await_resume() const { return get_context(); }
};
inline ContextInCoroutine get_context_in_coro() { return {}; }

// A call whose answer comes later: a coroutine's or a callback's. Held by shared pointers.
class AsyncCall : public std::enable_shared_from_this<AsyncCall> {
public:
	// On the connection's thread, where it is also destroyed, whoever lets go of it last.
	static std::shared_ptr<AsyncCall> make(
		std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame, Arrived& arrived);
	~AsyncCall();

	context_info_t& info() { return info_; }
	IoThread& home() const { return home_; }
	ServerConnection& connection() const { return *connection_; }
	// From any thread, once: further answers count for nothing. `body` is packed.
	void answer(Buffer body);
	void answer(const rpc_error& error);

	std::coroutine_handle<> frame;  // of a handler that is a coroutine, until it has ended

private:
	friend class ServerConnection;
	friend class CallTable;
	AsyncCall(
		std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame, Arrived& arrived);
	void give_up(const rpc_error& why);  // nobody waits for its answer

	std::shared_ptr<ServerConnection> connection_;
	IoThread& home_;
	context_info_t info_;
	std::shared_ptr<StreamEnd> stream_;  // of a function that has one
	AsyncCall* next_ = nullptr;  // in the connection's CallTable
	bool listed_ = false;        // there
	std::atomic<bool> answered_{false};
};

template <class T> class context {
public:
	using return_type = T;
	explicit context(std::shared_ptr<AsyncCall> call) : call_(std::move(call)) {}

	template <class... Arguments> void response_msg(Arguments&&... arguments) const {
		Buffer body;
		if constexpr (std::is_void_v<T>) {
			static_assert(sizeof...(Arguments) == 0, "a context<void> is answered without a value");
		} else {
			static_assert(std::is_constructible_v<T, Arguments...>,
				"the answer cannot be made of these arguments: see the T of this context<T>");
			pack_value(body, T(std::forward<Arguments>(arguments)...));
		}
		call_->answer(std::move(body));
	}
	void response_error(errc code) const { call_->answer(rpc_error(code)); }
	void response_error(errc code, std::string text) const { call_->answer(rpc_error(code, std::move(text))); }
	void response_error(std::uint16_t code) const { call_->answer(rpc_error(code)); }
	void response_error(std::uint16_t code, std::string text) const { call_->answer(rpc_error(code, std::move(text))); }

	context_info_t* get_context_info() const { return &call_->info(); }

private:
	std::shared_ptr<AsyncCall> call_;
};

}  // namespace verbena::rpc
