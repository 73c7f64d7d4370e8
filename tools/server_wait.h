// SPDX-License-Identifier: Apache-2.0
// The option --wait of the clients: a server that starts with them may listen a moment later.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/descriptor.h"
#include "lib/async/socket.h"

namespace verbena::tools {

inline constexpr std::chrono::milliseconds pause_between_attempts{20};

inline void add_wait_option(CLI::App& app, double& seconds) {
	app.add_option("--wait", seconds, "Seconds to wait for a server that does not listen yet")
		->capture_default_str()
		->check(CLI::Range(0.0, 3600.0));
}

// Returns once a process accepts TCP connections at the address, when the time is over, or if there
// is no descriptor, which the caller's own attempt reports. The connection that finds out is reset.
inline void wait_for_listener(const async::Address& where, double seconds) {
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
	while (std::chrono::steady_clock::now() < deadline) {
		const Descriptor fd(socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		if (!fd) return;
		const linger reset{.l_onoff = 1, .l_linger = 0};
		setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		if (connect(fd.get(), where.get(), where.length) == 0) return;
		// A host that drops packets, or a full backlog: the answer may come, or not.
		if (errno == EINPROGRESS) {
			const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
			pollfd answered{.fd = fd.get(), .events = POLLOUT, .revents = 0};
			if (poll(&answered, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) == 1 &&
				(answered.revents & POLLERR) == 0)
				return;
		}
		std::this_thread::sleep_for(pause_between_attempts);
	}
}

}  // namespace verbena::tools
