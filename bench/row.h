// A row of a result table of `verbena bench rcud`, or of the published table: what was run, what
// the receiver counted, and whether the row can be true.
//
// Threads: a value.
// Invariants: an absent number is an empty optional. A published table has only the first seven
//   columns; a cell that cannot be run (`n/a`) has no mops and no gib. Counts are sums over the
//   repetitions, mops is their median, iters is the number of messages of one repetition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::bench {

struct Row {
	std::string experiment = "msg_sweep";
	std::string mode;          // RC, UD, UD-seg (we cut messages above the MTU)
	std::uint64_t msg = 0;     // bytes of a message
	std::uint64_t window = 0;  // messages in flight at most
	std::uint64_t iters = 0;
	std::optional<double> mops;  // 10^6 messages delivered a second
	std::optional<double> gib;   // 2^30 bytes delivered a second

	std::string op;           // send, write, read
	std::string window_mode;  // local, credit
	std::string device;
	std::optional<std::uint64_t> mtu;  // bytes
	std::optional<std::uint64_t> posted, completed, delivered, lost, duplicated, reordered;
	std::optional<double> spread;              // (max - min) / median over the repetitions
	std::optional<double> mops_low, mops_high;  // 95 % interval of the median
	std::optional<double> p50_us, p99_us;      // latency
	// The core-to-core round trip around the repetitions (rcud/round_trip.h), if both ends are on
	// one host.
	std::optional<double> rtt_before_ns, rtt_after_ns;
	std::string rtt_class;  // smt, near, far, mixed

	std::string validity;  // valid, suspect, invalid, n/a; empty: not judged yet
	std::string reason;
	std::string repetitions;        // mops of each, joined by ';'
	std::string repetition_counts;  // JSON array with all counts of each; written to JSON only

	// For a row that was read from a table: half a unit of the last printed digit, which is how far
	// the printed value may be off.
	double mops_rounding = 0;
	double gib_rounding = 0;
};

// The environment of the measurement: names and values, in the order in which they are printed.
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Table {
	Environment environment;
	std::vector<Row> rows;
};

// The rate in 2^30 bytes a second of 10^6 `mops` messages a second of `msg` bytes.
inline double gib_of(double mops, std::uint64_t msg) { return mops * 1e6 * static_cast<double>(msg) / (1u << 30); }

}  // namespace verbena::bench
