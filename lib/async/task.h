// Task<T>: a coroutine's result that somebody awaits.
//
// Lazy: nothing runs before `co_await`. One awaiter, once; the result is moved out. The frame belongs to the Task and
// dies with it, at whatever point it stands: awaiters that wait elsewhere (a timer, a channel) take their names off the
// list in their destructors, so an abandoned Task leaves nothing behind. Resuming goes by symmetric transfer, so long
// chains use no stack. An exception travels to who awaits.
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
	std::coroutine_handle<> continuation = std::noop_coroutine();
	std::exception_ptr error;

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
