// SPDX-License-Identifier: Apache-2.0
// For tests: two ends of one TCP connection.
#pragma once

#include <array>

#include "lib/async/socket.h"
#include "lib/async/task.h"

namespace verbena::channel::testing_tools {

// The end that connected, and the end that accepted.
inline std::array<async::Socket, 2> connected_sockets(async::Loop& loop) {
	auto listener = async::listen(loop, async::resolve("127.0.0.1", 0).value()).value();
	std::array<async::Socket, 2> sockets;
	loop.complete([](async::Descriptor& at, std::array<async::Socket, 2>& ends) -> async::Task<void> {
		ends[0] = (co_await async::connect(at.loop(), async::local_address(at), never)).value();
		ends[1] = (co_await async::accept(at)).value();
	}(*listener, sockets));
	return sockets;
}

}  // namespace verbena::channel::testing_tools
