// SPDX-License-Identifier: Apache-2.0
// Cells that are run by other RPC systems: each has a program with its server and client, which is
// built if the system's packages are installed (bench/rpc/grpc, bench/rpc/capnp). The program takes
// the cell as arguments, and writes its Outcome to standard output as raw bytes: it must be of the
// same build.
//
// Errors: one sentence; if a program was not built, it names the packages to install.
#pragma once

#include <atomic>
#include <expected>
#include <mutex>
#include <string>
#include <string_view>

#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

struct Board;

// "verbena", "grpc", "capnp".
std::string_view name_of(System system);
// Checks that the system's program exists; if not, the error says what to install.
std::expected<void, std::string> find_peer(System system);
// Runs a cell by the system's program.
std::expected<Outcome, std::string> run_peer(const CellOptions& options);

// main() of such a program: runs the cell that its arguments describe, with these two functions as
// server and client, and writes the Outcome. Returns the exit status.
int peer_main(
	int count, char** words, void (*serve)(const CellOptions&, Board&), void (*call)(const CellOptions&, Board&));

// Warm-up and measurement for another system's client: counts requests in the measured time.
//
// Threads: ended() and over() are thread-safe; one thread calls keep().
class Pace {
public:
	Pace(const CellOptions& options, Board& board) : options_(options), board_(board) {}
	Pace(const Pace&) = delete;
	Pace& operator=(const Pace&) = delete;

	// Counts a request that began at this time and has ended now.
	void ended(Nanoseconds began, bool good);
	// Sleeps through warm-up and measurement, and fills in the outcome's times.
	void keep();
	// Returns whether the measurement has ended, so that no request should begin.
	bool over() const { return over_.load(std::memory_order_relaxed); }

private:
	bool has_counted();

	const CellOptions& options_;
	Board& board_;
	std::mutex lock_;  // protects board_.outcome and counts_from_
	Nanoseconds counts_from_ = never;  // the end of the warm-up
	std::atomic<bool> over_{false};
};

}  // namespace verbena::rpcbench
