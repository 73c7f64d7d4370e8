// SPDX-License-Identifier: Apache-2.0
// Task<T>: a lazy coroutine that one other coroutine awaits, once. Its body does not run before
// `co_await`.
//
// Threads: a Task is created, awaited and destroyed on one thread, that of its Loop.
// Owns: the coroutine's frame. `co_await std::move(task)` moves the result out of it.
// Lifetime: destroying a Task destroys the coroutine's frame, wherever the coroutine is suspended.
//   Awaiters in the frame (a timer, a channel's waiter) remove themselves from every list in their
//   destructors, so a Task is cancelled by destroying it.
// Errors: an exception that leaves the coroutine is thrown again from the co_await.
// Invariants: a coroutine that ends resumes its awaiter by symmetric transfer, so a chain of
//   awaiting coroutines, however long, does not deepen the stack.
//
// GCC 12 miscompiles some statements with co_await (seen with 12.2 at -O0 and -O2; GCC bug 99576,
// which GCC 13 fixes; Clang 19 is not affected). If a statement contains co_await anywhere, GCC 12
// destroys twice, and the first time too early, each temporary with a destructor that is
//   - made by aggregate initialization: {.name = n}, Options{}, Options(a, b), also where that is a
//     default argument;
//   - a lambda that captures by value;
//   - a class object chosen by ?:, such as one of two Tasks;
// and also an aggregate variable whose initializing braces contain the co_await. So define such an
// object as a variable in a statement without co_await. These are safe: a temporary made by a
// constructor or returned by a function, Options(), a lambda that captures by reference, and any
// object without a destructor.
//
//     co_await client.call({.name = name});        // wrong: frees `name` twice
//     const Options options{.name = name};
//     co_await client.call(options);               // right
//     auto calling = client.call({.name = name});  // right: this statement has no co_await
//     co_await std::move(calling);
//
// tests/lint/coroutines.py refuses such statements by their tokens, whatever the types are.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "base/check.h"

namespace verbena::async {

template <class T = void> class Task;

namespace detail {

struct PromiseBase {
	std::coroutine_handle<> continuation = std::noop_coroutine();  // the awaiting coroutine
	std::exception_ptr error;

	// Resumes the awaiting coroutine; the frame lives on until its Task is destroyed.
	struct Final {
		bool await_ready() noexcept { return false; }
		template <class Promise> std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
			return done.promise().continuation;
		}
		void await_resume() noexcept {}
	};

	std::suspend_always initial_suspend() noexcept { return {}; }
	Final final_suspend() noexcept { return {}; }
	void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <class T> struct Promise : PromiseBase {
	std::optional<T> value;

	Task<T> get_return_object();
	template <class U> void return_value(U&& result) { value.emplace(std::forward<U>(result)); }
	T take() {
		if (error) std::rethrow_exception(error);
		return std::move(*value);
	}
};

template <> struct Promise<void> : PromiseBase {
	Task<void> get_return_object();
	void return_void() {}
	void take() {
		if (error) std::rethrow_exception(error);
	}
};

}  // namespace detail

template <class T> class [[nodiscard]] Task {
public:
	using promise_type = detail::Promise<T>;
	using Handle = std::coroutine_handle<promise_type>;

	explicit Task(Handle handle) : handle_(handle) {}
	Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
	Task& operator=(Task&& other) noexcept {
		if (this == &other) return *this;
		if (handle_) handle_.destroy();
		handle_ = std::exchange(other.handle_, {});
		return *this;
	}
	~Task() {
		if (handle_) handle_.destroy();
	}

	auto operator co_await() && {
		struct Awaiter {
			Handle handle;
			bool await_ready() { return false; }
			std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
				handle.promise().continuation = awaiting;
				return handle;
			}
			T await_resume() { return handle.promise().take(); }
		};
		check(static_cast<bool>(handle_), "a task is awaited once");
		return Awaiter{handle_};
	}

private:
	Handle handle_;
};

template <class T> Task<T> detail::Promise<T>::get_return_object() {
	return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() {
	return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace verbena::async
