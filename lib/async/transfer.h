// co_await run_on(home, other, work): `work` runs on another loop's thread, and its result comes back to this coroutine
// on its own.
//
// Both loops must run until it is back; whoever stops them joins their threads before destroying what was spawned.
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
