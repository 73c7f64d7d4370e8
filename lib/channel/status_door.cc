// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/status_door.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "base/door.h"
#include "lib/channel/status.h"

namespace verbena::channel {
namespace {

// In one turn. Visitors beyond this, such as many processes of another user that are all refused,
// wait for the pause.
constexpr int visitors_max = 4;
constexpr Nanoseconds pause = 50'000'000;

}  // namespace

struct StatusDoor::Serving::promise_type {
	Serving get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
	std::suspend_never initial_suspend() noexcept { return {}; }
	std::suspend_always final_suspend() noexcept { return {}; }
	void return_void() {}
	[[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
};

StatusDoor::StatusDoor(async::Loop& loop, std::function<std::string()> text) : loop_(loop), text_(std::move(text)) {
	const auto door = door::open(status_door_kind, geteuid());
	// The loop's descriptor owns its number, so it gets one of its own.
	const int own = door ? fcntl(door->get(), F_DUPFD_CLOEXEC, 0) : -1;
	if (own < 0) return;
	door_.emplace(loop, own);
	serving_ = serve().frame;
}

StatusDoor::~StatusDoor() {
	if (serving_) serving_.destroy();
}

StatusDoor::Serving StatusDoor::serve() {
	for (;;) {
		if (answer_some()) co_await loop_.sleep_for(pause);
		else co_await async::Park(door_->readers);
	}
}

// True: more visitors may wait, or one could not be accepted.
bool StatusDoor::answer_some() {
	for (int i = 0; i < visitors_max; ++i) {
		const auto visitor = door::next_visitor(door_->fd());
		if (visitor) static_cast<void>(door::answer(*visitor, text_()));  // the visitor sees it
		else if (visitor.error() == EAGAIN) return door_->readable = false;
		else if (visitor.error() != EPERM) return true;
	}
	return true;
}

}  // namespace verbena::channel
