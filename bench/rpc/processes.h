// SPDX-License-Identifier: Apache-2.0
// run_processes(): a server and a client as child processes, and the shared memory by which they
// coordinate a measurement. Used for this library and for the other systems.
//
//     the server sets port; the client sets measuring and then measured; the server sets
//     server_reported; the parent sets done
//
// Threads: run_processes() forks, so the calling process must have one thread. The Board's flags
//   are atomic. The server writes server_cpu_s and, of the outcome, served, connections and
//   pinned_kib; the client writes the rest.
// Lifetime: a process that waits ends its wait when any has failed or the parent has died.
// Errors: the first failure, in one sentence; a process that dies is one too.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <string>

#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

// The memory that parent, server and client share.
struct Board {
	std::atomic<int> port{0};
	std::atomic<bool> measuring{false}, measured{false}, server_reported{false}, done{false};
	std::atomic<bool> failed{false};
	double server_cpu_s = 0;
	char error[256] = {};
	Outcome outcome;

	// Ends the run with an error.
	void fail(const std::string& why);
	// Looks every millisecond until the flag is set, a process has failed, or the parent has died.
	void wait_for(const std::atomic<bool>& flag) const;
};

// The processor time of this process, with all its threads.
double cpu_seconds();

// The server's part of a run, once it listens at `port`: measures its processor time while the
// client measures, calls `account` while the client is connected, and returns after the run.
void stand_by(Board& board, int port, const std::function<void()>& account = {});

// The first step of the client: returns the server's port; 0: the server has failed.
int wait_for_port(const Board& board);

// Forks a process for each of the two bodies, waits for both, and returns the outcome. The
// processes first measure the round trip of a cache line between them.
using Body = std::function<void(Board&)>;
std::expected<Outcome, std::string> run_processes(const Body& serve, const Body& call);

}  // namespace verbena::rpcbench
