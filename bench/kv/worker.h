// Worker: the measured loop, which runs one cell on clients of one thread.
//
// Threads: one, that of the session's loop; run() runs the loop.
// Owns: the clients, which it keeps for later runs.
#pragma once

#include <memory>
#include <vector>

#include "bench/kv/cell.h"
#include "lib/kv/session.h"

namespace verbena::kvbench {

struct WorkerOptions {
	bool one_sided = false;  // also prepares the clients for cells with one-sided GETs
	// The number of its first client. Keys are named by the clients' numbers, so that workers with
	// different numbers share no keys.
	std::uint32_t first_client = 0;
};

class Worker {
public:
	// `session` outlives the worker.
	Worker(kv::Session& session, const WorkerOptions& options) : session_(session), options_(options) {}

	// Connects clients if there are fewer than the cell has, then prepares, warms up, measures and
	// checks. A failure is in Run::failure.
	Run run(const Cell& cell);
	// Returns the number of operations in all runs, with warm-up, preparation and checks; the
	// server must have counted the same number.
	std::uint64_t operations() const;

private:
	kv::Session& session_;
	WorkerOptions options_;
	std::uint64_t runs_ = 0;
	std::vector<std::unique_ptr<kv::Client>> clients_;
};

}  // namespace verbena::kvbench
