// Cells of other systems: their server and client are in a program of their own, which is built where the system's
// packages are there (bench/rpc/grpc, bench/rpc/capnp). It takes the cell as words, and gives the outcome back as
// bytes: it is of the same build.
#pragma once

#include <atomic>
#include <expected>
#include <mutex>
#include <string>
#include <string_view>

#include "bench/rpc/cell.h"

namespace verbena::rpcbench {

struct Board;

std::string_view name_of(Peer peer);
// Whether its program is there; else the error says what to install.
std::expected<void, std::string> find_peer(Peer peer);
std::expected<Outcome, std::string> run_peer(const CellOptions& options);

// main() of a peer's program: runs the cell that the words name and writes its outcome to standard output.
int peer_main(
	int count, char** words, void (*serve)(const CellOptions&, Board&), void (*call)(const CellOptions&, Board&));

// The time of a cell, for a peer's client: counts what was answered within the measured time. From any thread.
class Pace {
public:
	Pace(const CellOptions& options, Board& board) : options_(options), board_(board) {}
	Pace(const Pace&) = delete;
	Pace& operator=(const Pace&) = delete;

	void ended(Nanoseconds began, bool good);
	// Sleeps through warm-up and measurement.
	void keep();
	bool over() const { return over_.load(std::memory_order_relaxed); }

private:
	const CellOptions& options_;
	Board& board_;
	std::mutex lock_;
	Nanoseconds counts_from_ = never;
	std::atomic<bool> over_{false};
};

}  // namespace verbena::rpcbench
