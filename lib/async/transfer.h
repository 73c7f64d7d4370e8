// SPDX-License-Identifier: Apache-2.0
// co_await run_on(home, other, work): calls `work` on the thread of another loop, then continues
// this coroutine with the result on its own loop. If both are the same loop, `work` is called at
// once.
//
// Threads: await it on `home`; only `work` runs on the other thread.
// Lifetime: both loops must run until the result is back. To stop them earlier, join both threads
//   before the coroutine is destroyed, because the other thread writes into its frame.
// Errors: `work` must not throw; nothing on the other loop would catch it.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "lib/async/loop.h"

namespace verbena::async {

template <class Work> class RunOn : public Waiter {
public:
	using Result = std::invoke_result_t<Work>;

	RunOn(Loop& home, Loop& other, Work work) : home_(home), other_(other), work_(std::move(work)) {}
	bool await_ready() {
		if (&home_ == &other_) result_.emplace(work_());
		return result_.has_value();
	}
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		other_.post([this] {
			result_.emplace(work_());
			home_.post([this] { home_.resume_soon(*this); });
		});
	}
	Result await_resume() { return std::move(*result_); }

private:
	Loop& home_;
	Loop& other_;
	Work work_;
	std::optional<Result> result_;
};

template <class Work> RunOn<Work> run_on(Loop& home, Loop& other, Work work) { return {home, other, std::move(work)}; }

}  // namespace verbena::async
