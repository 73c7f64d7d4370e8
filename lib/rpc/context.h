// SPDX-License-Identifier: Apache-2.0
// The context of a call: what a handler may read and set beside its parameters and its result.
//
//     get_context()                   in a plain function; in other handlers before they wait
//     co_await get_context_in_coro()  in a coroutine, as its first statement
//     context<T>::get_context_info()  in a callback, while it holds the context
//
// A callback answers by response_msg() or response_error() of its context<T>, once; later answers
// are ignored. If all copies of the context are destroyed without an answer, the caller receives
// errc::rpc_throw_exception.
//
// Threads: a context<T> may be copied, used and destroyed on any thread. A context_info_t belongs
//   to its handler, one thread at a time; cancelled() and has_closed() are thread-safe.
// Lifetime: a context_info_t lives until its plain function returns, its coroutine ends, or the
//   last copy of its context<T> is destroyed. All copies of a context<T> must be destroyed before
//   the server's threads end.
#pragma once

#include <any>
#include <atomic>
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
	// The attachment of the request. The view dangles once the call is answered.
	std::string_view get_request_attachment() const;
	std::string release_request_attachment() const { return std::string(get_request_attachment()); }
	// Sets the attachment of the response. A view is copied, unless it is a large part of the
	// request's message, which is then kept until the response is sent.
	void set_response_attachment(std::string&& bytes) { response_ = {.bytes = {}, .owner = std::move(bytes)}; }
	void set_response_attachment(std::string_view bytes);
	void set_response_attachment(const char* text) { set_response_attachment(std::string_view(text)); }
	// Sets an attachment in registered memory from memory(). The client fetches it without a copy,
	// so it must stay unchanged until it is fetched. Call this on the connection's I/O thread.
	void set_response_attachment(channel::Place place) { response_ = registered_attachment(std::move(place)); }
	// The pool of registered memory of the connection's I/O thread, to be used on that thread only;
	// null over TCP.
	channel::MemoryPool* memory() const;

	// True: the connection is closed, so no response can be sent.
	bool has_closed() const;
	// True: the caller has canceled the call or its connection is gone; no response will be sent.
	bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
	// The monotonic time at which the caller stops waiting; `never` if it has no timeout.
	Nanoseconds deadline() const { return deadline_; }
	// Closes the connection once this call has ended and its response is sent.
	void close() { closes_ = true; }

	std::uint64_t get_connection_id() const;  // unique in this server
	std::uint32_t get_request_id() const { return sequence_; }  // unique among calls in flight
	std::string_view get_rpc_function_name() const { return function_; }
	const std::string& get_remote_endpoint() const;  // "address:port"
	std::string_view get_transport() const;  // "rc", "tcp", "tcp+tls"
	// A value that the program may keep with the connection. Not synchronized: use it on the
	// connection's I/O thread.
	std::any& tag();

	context_info_t(const context_info_t&) = delete;
	context_info_t& operator=(const context_info_t&) = delete;
	~context_info_t();

	// Internal, for the code that executes calls. `arrived`: the message of a plain function's
	// call, on the stack of the reader; null for other handlers, which hold a share of the message.
	context_info_t(ServerConnection& connection, std::string_view function, const Frame& frame, Arrived* arrived);

private:
	friend class ServerConnection;
	friend class AsyncCall;

	ServerConnection* connection_;
	std::string_view function_;
	std::uint32_t sequence_;
	Nanoseconds deadline_;
	std::span<const std::byte> attachment_;
	Arrived* arrived_;       // see the constructor
	MessageShare share_;     // keeps the message of a coroutine's or callback's call, unless copied
	Attachment response_;
	std::atomic<bool> cancelled_{false};
	bool closes_ = false;
};

// Returns the context of the handler that runs on this thread; null if no handler runs. A coroutine
// that has waited must not call get_context(), which may then return another handler's context.
context_info_t* get_context();
// Internal: sets the context of this thread, and returns the previous one.
context_info_t* swap_context(context_info_t* with);

// The awaitable of get_context_in_coro(), which yields the context of the coroutine. The coroutine
// must await it before it waits for anything else.
struct ContextInCoroutine {
	bool await_ready() const { return true; }
	void await_suspend(std::coroutine_handle<>) const {}
	context_info_t* await_resume() const { return get_context(); }
};
inline ContextInCoroutine get_context_in_coro() { return {}; }

// Internal: a call that is answered later, by a coroutine or a callback.
//
// Threads: answer() is thread-safe. A call is made and destroyed on the connection's thread; any
//   thread may release the last shared pointer.
// Owns: the bytes of the request, behind the object, or a share of its message if they are a large
//   part of that; and the frame of a handler that is a coroutine.
// Invariants: the caller gets exactly one response; the destructor sends an error if none was sent.
class AsyncCall : public std::enable_shared_from_this<AsyncCall> {
public:
	static std::shared_ptr<AsyncCall> make(
		std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame, Arrived& arrived);
	~AsyncCall();

	context_info_t& info() { return info_; }
	std::span<const std::byte> body() const { return body_; }  // the request's arguments
	std::uint32_t sequence() const { return info_.get_request_id(); }
	IoThread& home() const { return home_; }
	ServerConnection& connection() const { return *connection_; }
	// Has the connection's thread send the response. Only the first answer() has an effect.
	void answer(Buffer body);  // `body`: the packed result
	void answer(const rpc_error& error);
	// Counts bytes that the call takes until it ends, in addition to the request.
	void hold(std::size_t bytes);

	std::coroutine_handle<> frame;  // the handler's coroutine until it has ended; else null

private:
	friend class ServerConnection;
	template <class Call> friend class CallTable;
	// The bytes behind the object, for the copy of the request.
	struct Behind {
		std::size_t bytes;
	};
	static void* operator new(std::size_t size, Behind behind) { return ::operator new(size + behind.bytes); }
	static void operator delete(void* at, Behind) { ::operator delete(at); }
	static void operator delete(void* at) { ::operator delete(at); }
	AsyncCall(std::shared_ptr<ServerConnection> connection, std::string_view function, const Frame& frame);
	void copy(const Frame& frame);  // to the bytes behind the object
	void share(const Frame& frame, Arrived& arrived);
	// The caller no longer waits: marks the call as cancelled, and ends its stream.
	void give_up(const rpc_error& why);

	std::shared_ptr<ServerConnection> connection_;
	IoThread& home_;
	context_info_t info_;
	std::span<const std::byte> body_;
	std::shared_ptr<StreamEnd> stream_;  // null for a function without a stream
	AsyncCall* next_ = nullptr;  // the next call in a bucket of the connection's CallTable
	bool listed_ = false;        // this call is in the CallTable
	// Bytes that the call takes with its request and arguments, counted by the connection.
	std::size_t held_ = 0;
	std::atomic<bool> answered_{false};
};

// The first parameter of a callback: a handle by which it answers its call with a T.
template <class T> class context {
public:
	using return_type = T;
	explicit context(std::shared_ptr<AsyncCall> call) : call_(std::move(call)) {}

	// Answers with T(arguments...); without arguments for a context<void>.
	template <class... Arguments> void response_msg(Arguments&&... arguments) const {
		Buffer body;
		if constexpr (std::is_void_v<T>) {
			static_assert(sizeof...(Arguments) == 0, "a context<void> is answered without a value");
		} else {
			static_assert(std::is_constructible_v<T, Arguments...>,
				"the T of this context<T> cannot be constructed from these arguments");
			pack_value(body, T(std::forward<Arguments>(arguments)...));
		}
		call_->answer(std::move(body));
	}
	// Answers with an error: one of the library's codes, or one of the program's (256 to 65535).
	void response_error(errc code) const { call_->answer(rpc_error(code)); }
	void response_error(errc code, std::string text) const { call_->answer(rpc_error(code, std::move(text))); }
	void response_error(std::uint16_t code) const { call_->answer(rpc_error(code)); }
	void response_error(std::uint16_t code, std::string text) const { call_->answer(rpc_error(code, std::move(text))); }

	// Valid while this context exists.
	context_info_t* get_context_info() const { return &call_->info(); }

private:
	std::shared_ptr<AsyncCall> call_;
};

}  // namespace verbena::rpc
