// SPDX-License-Identifier: Apache-2.0
// The servers that the trials of a sweep need: our own sessions, and servers of other systems. Each
// is started when it is first needed, and runs until the end.
//
// Threads: one.
// Owns: the processes.
// Errors: a bench::Failure of one sentence.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "bench/kv/session.h"
#include "bench/rivals/stores.h"

namespace verbena::kvbench {

class Sessions {
public:
	// `common`: the options that all sessions share; a cell sets its depths and stalled clients.
	explicit Sessions(SessionOptions common) : common_(std::move(common)) {}

	// The session that has the cell's depths. With stalled clients beside it, or in turn with such
	// a cell, it is a new one, and all others have ended: a stalled client's lease ends after some
	// seconds, and from then on it would no longer hold anything of the server's.
	Session& of(const Cell& cell);
	// Ends the session of a run that failed: the next trial starts another one.
	void end(const Cell& cell);
	// The server of another system.
	bench::RivalServer& rival_of(const Cell& cell);

	const SessionOptions& common() const { return common_; }
	// The first server that was started.
	const Served& served() const { return served_; }
	// Memory registrations of all servers so far.
	std::uint64_t server_registrations();

private:
	using Depths = std::tuple<std::uint32_t, std::uint32_t>;
	static Depths depths_of(const Cell& cell) { return {cell.rx_depth, cell.tx_depth}; }
	void end_all();

	SessionOptions common_;
	Served served_;
	std::map<Depths, std::unique_ptr<Session>> sessions_;
	std::map<std::tuple<System, Transport>, std::unique_ptr<bench::RivalServer>> rivals_;
	std::uint64_t registrations_of_ended_ = 0;
};

}  // namespace verbena::kvbench
