// SPDX-License-Identifier: Apache-2.0
// Job: a running coroutine that its owner may cancel at any point by destroying the Job.
//
// Threads: created, moved and destroyed on the loop's thread.
// Owns: the task and every coroutine that it awaits.
// Lifetime: the task starts in the loop's next turn. Destroying a Job, or assigning another to it,
//   destroys the task wherever it is suspended; a Job must not be destroyed by its own task.
// Errors: an exception that leaves the task ends the program.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "lib/async/loop.h"
#include "lib/async/task.h"

namespace verbena::async {

class Job {
public:
	Job() = default;
	Job(Loop& loop, Task<void> task) : body_(run(loop, std::move(task))) { body_.handle.resume(); }
	Job(Job&& other) noexcept : body_(std::exchange(other.body_, {})) {}
	Job& operator=(Job&& other) noexcept {
		if (this == &other) return *this;
		if (body_.handle) body_.handle.destroy();
		body_ = std::exchange(other.body_, {});
		return *this;
	}
	~Job() {
		if (body_.handle) body_.handle.destroy();
	}
	// True for an empty Job, and for one whose task has ended.
	bool done() const { return !body_.handle || body_.handle.done(); }

private:
	struct Body {
		struct promise_type {
			Body get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
			std::suspend_always initial_suspend() noexcept { return {}; }
			std::suspend_always final_suspend() noexcept { return {}; }
			void return_void() {}
			[[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
		};
		std::coroutine_handle<promise_type> handle;
	};
	static Body run(Loop& loop, Task<void> task) {
		co_await NextTurn(loop);
		co_await std::move(task);
	}
	Body body_;
};

}  // namespace verbena::async
