// SPDX-License-Identifier: Apache-2.0
// Worker: the measured loop, which runs one cell on clients of one thread.
//
// Threads: one, that of the session's loop; run() runs the loop.
// Owns: the clients, which it keeps for later runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/kv/cell.h"
#include "bench/kv/values.h"
#include "lib/kv/router.h"

namespace verbena::kvbench {

struct WorkerOptions {
	bool one_sided = false;  // also prepares the clients for cells with one-sided GETs
	// The number of its first client. Keys are named by the clients' numbers, so that workers with
	// different numbers share no keys.
	std::uint32_t first_client = 0;
};

// One key: its name, and its number among the values.
struct Key {
	std::string name;
	std::uint32_t number = 0;
	bool set = false;  // this run has set it
};

// Sets Repetition::failure, which holds the first bytes of a long sentence.
void fail(Repetition& run, const std::string& why);

class Worker {
public:
	// `session` outlives the worker.
	Worker(kv::Session& session, const WorkerOptions& options) : session_(session), options_(options) {}

	// Connects clients if there are fewer than the cell has, then prepares, warms up, measures and
	// checks. A failure is in Repetition::failure.
	Repetition run(const Cell& cell);
	// Returns the number of operations in all runs, with warm-up, preparation and checks; the
	// server must have counted the same number.
	std::uint64_t operations() const;

private:
	// The keys of each client, and the values of all keys, in one run.
	struct Load {
		std::vector<std::vector<Key>> keys;
		Values values;
	};

	// Connects clients until there are `count`. Returns a failure, or nothing.
	std::string connect(std::uint32_t count);
	// Sets the options of the clients, and all keys if the cell has GETs. Returns a failure, or
	// nothing.
	std::string prepare(const Cell& cell, Load& load);
	// The number of keys that were set and now have another value.
	std::uint64_t check_values(const Cell& cell, const Load& load);

	kv::Session& session_;
	WorkerOptions options_;
	std::uint64_t runs_ = 0;
	std::vector<std::unique_ptr<kv::Router>> clients_;
};

}  // namespace verbena::kvbench
