// One row of a result table, ours or published: what was run, what the receiver counted, and whether it can be
// believed.
//
// A value. Absent numbers are empty: a published table has the first seven columns only, a cell that cannot be run
// (`n/a`) has no mops and gib. Counts are sums over the repetitions; mops is the median repetition's; iters is what one
// repetition ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::bench {

struct Row {
	std::string experiment = "msg_sweep";
	std::string mode;  // RC, UD, UD-seg (our segmentation)
	std::uint64_t msg = 0;
	std::uint64_t window = 0;
	std::uint64_t iters = 0;
	std::optional<double> mops;  // 10^6 messages delivered a second
	std::optional<double> gib;   // 2^30 bytes delivered a second

	std::string op;           // send, write, read
	std::string window_mode;  // local, credit
	std::string device;
	std::optional<std::uint64_t> mtu;
	std::optional<std::uint64_t> posted, completed, delivered, lost, duplicated, reordered;
	std::optional<double> spread;              // (max - min) / median over the repetitions
	std::optional<double> mops_low, mops_high;  // 95 % interval of the median
	std::optional<double> p50_us, p99_us;
	std::optional<double> rtt_before_ns, rtt_after_ns;  // core to core, when both ends are on one host
	std::string rtt_class;         // smt, near, far, mixed

	std::string validity;  // valid, suspect, invalid, n/a; empty: not judged yet
	std::string reason;
	std::string repetitions;        // mops of each, joined by ';'
	std::string repetition_counts;  // JSON array with the full counts of each; written to JSON only

	// As printed where the row was read: half a unit of the last digit is how far the printed value may be off.
	double mops_rounding = 0;
	double gib_rounding = 0;
};

// What the rows were measured on, in the order in which it is printed.
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Table {
	Environment environment;
	std::vector<Row> rows;
};

inline double gib_of(double mops, std::uint64_t msg) { return mops * 1e6 * static_cast<double>(msg) / (1u << 30); }

}  // namespace verbena::bench
