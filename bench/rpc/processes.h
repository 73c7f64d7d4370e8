// A server and a client, each a process of its own, and what they tell each other: for our calls and for other systems'
// alike.
//
// The calling process must have no threads: it forks. What a process uses is counted within the measured time only.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <string>

#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

// What the three processes share.
struct Board {
	std::atomic<int> port{0};
	std::atomic<bool> measuring{false}, measured{false}, server_told{false}, done{false};
	std::atomic<bool> failed{false};
	double server_cpu_s = 0;
	char error[256] = {};
	Outcome outcome;

	void fail(const std::string& why);
	// Polls, gently, until the flag is set, somebody has failed, or the parent is gone.
	void wait_for(const std::atomic<bool>& flag) const;
};

// Of this process, with all its threads.
double cpu_seconds();

// The server's part once it listens at `port`: counts its processor's time while the client measures, and calls
// `account` while the client is still there. Returns when the client is done.
void stand_by(Board& board, int port, const std::function<void()>& account = {});

// The client's part begins with it. 0: the server has failed.
int wait_for_port(const Board& board);

using Body = std::function<void(Board&)>;
std::expected<Outcome, std::string> run_processes(const Body& serve, const Body& call);

}  // namespace verbena::rpcbench
