// Running: a coroutine that belongs to the object whose member it is. It starts at once, nobody awaits it, and it is
// destroyed, where it stands, with its owner's Coroutines.
//
//     Running Connection::answer(...) { ... co_await ...; }      // Connection has `Coroutines coroutines_`, and
//     befriends Running
#pragma once

#include <coroutine>
#include <exception>

#include "lib/async/list.h"

namespace verbena::kv {

// Those of one owner that have not ended. Declared last in the owner: they die before what they use.
class Coroutines {
public:
	Coroutines() = default;
	~Coroutines();
	Coroutines(const Coroutines&) = delete;
	Coroutines& operator=(const Coroutines&) = delete;
	bool empty() const { return list_.empty(); }

private:
	friend class Running;
	async::List<async::Linked> list_;
};

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
