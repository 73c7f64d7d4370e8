// SPDX-License-Identifier: Apache-2.0
// A session: one server process, one process of clients, and processes of stalled clients, for any
// number of runs. All are forked, so that they share nothing but the machine.
//
// Threads: one. The caller makes no verbs call before a session or between sessions, because a
//   forked process cannot use its parent's devices.
// Owns: the processes, which end with the session.
// Errors: a bench::Failure of one sentence.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "bench/far_end/round_trip.h"
#include "bench/kv/cell.h"
#include "bench/kv/child.h"
#include "lib/channel/connect.h"
#include "lib/kv/settings.h"

namespace verbena::kvbench {

struct SessionOptions {
	kv::Settings settings;  // for both sides, except that `memory` is the server's
	channel::Protection server_protection, client_protection;
	std::string device;
	bool tcp = false;
	// The number of further clients, each in a process of its own, which is stopped (SIGSTOP) in
	// the middle of a rendezvous before the measurement begins.
	std::uint32_t stalled = 0;
	Nanoseconds spin = 50'000;
};

// The server as it describes itself. The device is that of RDMA, which a server has over TCP too.
struct Served {
	std::uint16_t port = 0;
	char device[64] = {}, gid[48] = {}, link[64] = {};  // link: "Ethernet, 100 Gb/s"
	std::uint32_t mtu = 0;
	bool software = false;
	char error[256] = {};
};

class Session {
public:
	// Returns when the server serves and the stalled clients are stopped.
	explicit Session(const SessionOptions& options);
	Session(const Session&) = delete;
	Session& operator=(const Session&) = delete;

	const Served& served() const { return served_; }
	// Runs the cell on the clients. A Failure means that a process has ended.
	Repetition run(const Cell& cell);
	// Memory registrations of the server so far; it updates the number every few milliseconds. 0 if
	// its process has ended.
	std::uint64_t server_registrations();

private:
	void start_stalled(const SessionOptions& options);

	// A machine on which the round trip cannot be measured is busy, and the attempt took seconds.
	static constexpr int runs_without_ask = 15;

	bench::RoundTrip page_ = bench::RoundTrip::create();
	int runs_until_ask_ = 0;
	Served served_;
	// The clients are destroyed first, because the server waits for them when it ends.
	std::optional<Child> server_;
	std::deque<Child> stalled_;
	std::optional<Child> clients_;
};

}  // namespace verbena::kvbench
