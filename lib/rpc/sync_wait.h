// SPDX-License-Identifier: Apache-2.0
// Lazy<T>, coro_rpc's name for a coroutine's task; syncAwait(), which blocks a thread until a task
// has ended; and collectAll(), which awaits several tasks that run together.
//
// Threads: syncAwait() must not be called on an I/O thread, which it would block; check() enforces
//   it. collectAll() starts its tasks on the awaiting thread and continues on the thread on which
//   the last one ended.
// Errors: an exception of a task is thrown to the caller; collectAll() throws the first one in the
//   order of the tasks, after all have ended.
#pragma once

#include <exception>
#include <optional>
#include <semaphore>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/async/task.h"
#include "lib/rpc/io_threads.h"

namespace verbena::rpc {

template <class T = void> using Lazy = async::Task<T>;

namespace detail {

// A coroutine that runs on the calling thread until it first waits, and releases a semaphore when
// it has ended, on any thread.
struct Root {
	struct promise_type {
		std::binary_semaphore ended{0};
		std::exception_ptr error;
		Root get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() noexcept { return {}; }
		auto final_suspend() noexcept {
			struct SignalEnd {
				bool await_ready() noexcept { return false; }
				void await_suspend(std::coroutine_handle<promise_type> done) noexcept {
					done.promise().ended.release();
				}
				void await_resume() noexcept {}
			};
			return SignalEnd{};
		}
		void return_void() {}
		void unhandled_exception() noexcept { error = std::current_exception(); }
	};
	std::coroutine_handle<promise_type> frame;

	// Runs it to its end, destroys its frame, and throws its exception, if any.
	void run() {
		check(IoThread::current() == nullptr, "syncAwait() would block an I/O thread: co_await there instead");
		frame.resume();
		frame.promise().ended.acquire();
		const std::exception_ptr error = frame.promise().error;
		frame.destroy();
		if (error) std::rethrow_exception(error);
	}
};

template <class T> Root fill(async::Task<T> task, std::optional<T>& into) { into.emplace(co_await std::move(task)); }
inline Root await_void(async::Task<void> task) { co_await std::move(task); }

}  // namespace detail

// Runs a task, blocks until it has ended, and returns its result.
template <class T> T syncAwait(async::Task<T> task) {
	if constexpr (std::is_void_v<T>) {
		detail::await_void(std::move(task)).run();
	} else {
		std::optional<T> result;
		detail::fill(std::move(task), result).run();
		return std::move(*result);
	}
}

namespace detail {

// Counts the parts that have not ended; the last one resumes collectAll().
struct PartsLeft {
	std::atomic<std::size_t> left;
	std::coroutine_handle<> waiting;
};

// A coroutine that runs one task of collectAll().
struct Part {
	struct promise_type {
		PartsLeft* together = nullptr;
		std::exception_ptr error;
		Part get_return_object() { return Part(std::coroutine_handle<promise_type>::from_promise(*this)); }
		std::suspend_always initial_suspend() noexcept { return {}; }
		auto final_suspend() noexcept {
			struct SignalEnd {
				bool await_ready() noexcept { return false; }
				std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
					PartsLeft& all = *done.promise().together;
					if (all.left.fetch_sub(1, std::memory_order_acq_rel) == 1) return all.waiting;
					return std::noop_coroutine();
				}
				void await_resume() noexcept {}
			};
			return SignalEnd{};
		}
		void return_void() {}
		void unhandled_exception() noexcept { error = std::current_exception(); }
	};
	explicit Part(std::coroutine_handle<promise_type> handle) : frame(handle) {}
	Part(Part&& other) noexcept : frame(std::exchange(other.frame, {})) {}
	~Part() {
		if (frame) frame.destroy();
	}
	std::coroutine_handle<promise_type> frame;
};

template <class T> Part fill_part(async::Task<T> task, std::optional<T>& into) {
	into.emplace(co_await std::move(task));
}

// Starts all parts and waits until the last has ended. It counts itself as one part while it starts
// the others, so that a part that ends at once does not resume the caller too early.
struct StartAll {
	std::vector<Part>& parts;
	PartsLeft& together;
	bool await_ready() const { return parts.empty(); }
	bool await_suspend(std::coroutine_handle<> handle) const {
		together.waiting = handle;
		together.left.store(parts.size() + 1, std::memory_order_relaxed);
		for (Part& part : parts) {
			part.frame.promise().together = &together;
			part.frame.resume();
		}
		return together.left.fetch_sub(1, std::memory_order_acq_rel) != 1;
	}
	void await_resume() const {}
};

}  // namespace detail

// Runs all tasks and returns their results in the order of the tasks.
template <class T> Lazy<std::vector<T>> collectAll(std::vector<async::Task<T>> tasks) {
	std::vector<std::optional<T>> results(tasks.size());
	std::vector<detail::Part> parts;
	parts.reserve(tasks.size());
	for (std::size_t i = 0; i < tasks.size(); ++i) parts.push_back(detail::fill_part(std::move(tasks[i]), results[i]));
	detail::PartsLeft together{};
	const detail::StartAll all{parts, together};
	co_await all;
	std::vector<T> values;
	values.reserve(results.size());
	for (std::size_t i = 0; i < results.size(); ++i) {
		if (parts[i].frame.promise().error) std::rethrow_exception(parts[i].frame.promise().error);
		values.push_back(std::move(*results[i]));
	}
	co_return values;
}

}  // namespace verbena::rpc
