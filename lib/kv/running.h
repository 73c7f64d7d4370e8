// SPDX-License-Identifier: Apache-2.0
// Running: a coroutine that belongs to the object of which it is a member function. It starts at
// once, no caller awaits it, and an unfinished one is destroyed with its owner.
//
//     // Connection has a member `Coroutines coroutines_` and befriends Running.
//     Running Connection::read_value(...) { ... co_await ...; }
//
// Threads: one, that of the loop which resumes the coroutine.
// Errors: an exception that leaves the coroutine terminates the process.
#pragma once

#include <coroutine>
#include <exception>

#include "lib/async/list.h"

namespace verbena::kv {

// The unfinished coroutines of one owner. Declare it as the owner's last member, so that the
// coroutines are destroyed before the members that they use.
class Coroutines {
public:
	Coroutines() = default;
	~Coroutines();
	Coroutines(const Coroutines&) = delete;
	Coroutines& operator=(const Coroutines&) = delete;

private:
	friend class Running;
	async::List<async::Linked> list_;
};

// The return type of such a coroutine. It has no value and need not be kept.
class Running {
public:
	struct promise_type : async::Linked {
		template <class Owner, class... Arguments> explicit promise_type(Owner& owner, Arguments&...) {
			owner.coroutines_.list_.push_back(*this);
		}
		Running get_return_object() { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		[[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
	};
};

inline Coroutines::~Coroutines() {
	while (async::Linked* each = list_.pop_front())
		std::coroutine_handle<Running::promise_type>::from_promise(static_cast<Running::promise_type&>(*each))
			.destroy();
}

}  // namespace verbena::kv
