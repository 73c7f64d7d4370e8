// SPDX-License-Identifier: Apache-2.0
// The door at which a transport is asked for its status (status.h, base/door.h), served by the
// transport's loop.
//
// It costs a descriptor and, until a visitor comes, nothing else. A loop that does not run does not
// answer; the visitor then gives up.
//
// Threads: the loop's thread.
// Owns: the listening socket and the coroutine that serves it.
// Lifetime: destroyed before the loop and before what `text` uses.
// Errors: without a descriptor for the door there is none, and the transport works as well.
#pragma once

#include <coroutine>
#include <functional>
#include <optional>
#include <string>

#include "lib/async/loop.h"

namespace verbena::channel {

class StatusDoor {
public:
	// `text` is called for each visitor, within a turn of the loop.
	StatusDoor(async::Loop& loop, std::function<std::string()> text);
	~StatusDoor();
	StatusDoor(const StatusDoor&) = delete;
	StatusDoor& operator=(const StatusDoor&) = delete;

private:
	// A coroutine that the loop does not count among its spawned tasks, and does not abandon with
	// them: it lives as long as the door.
	struct Serving {
		struct promise_type;
		std::coroutine_handle<> frame;
	};
	Serving serve();
	bool answer_some();

	async::Loop& loop_;
	std::function<std::string()> text_;
	std::optional<async::Descriptor> door_;
	std::coroutine_handle<> serving_;
};

}  // namespace verbena::channel
