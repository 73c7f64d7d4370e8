// What one cell of the experiment is, and what one run of it found. Values; they go through pipes as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::kvbench {

enum class Op : std::uint8_t { set, get };
enum class Proto : std::uint8_t { eager, rndv, automatic, one_sided };  // one_sided: GETs only
enum class Form : std::uint8_t { read, write };  // of a SET by rendezvous

constexpr std::string_view name_of(Op op) { return op == Op::set ? "SET" : "GET"; }
constexpr std::string_view name_of(Proto proto) {
	switch (proto) {
		case Proto::eager: return "eager";
		case Proto::rndv: return "rendezvous";
		case Proto::one_sided: return "one-sided";
		default: return "auto";
	}
}
constexpr std::string_view name_of(Form form) { return form == Form::read ? "read" : "write"; }

inline constexpr std::uint32_t measured_clients_max = 1024;

struct Cell {
	Op op = Op::set;
	Proto proto = Proto::automatic;
	Form form = Form::read;
	std::uint32_t size = 64;
	std::uint32_t window = 1;   // operations of a client under way at once
	std::uint32_t clients = 1;
	std::uint32_t warmup = 50;  // operations before the timed ones
	std::uint32_t iters = 60'000;
	double seconds_max =
		1;     // a run ends here, if it has not done its iterations: `operations` says how many were timed
};

struct Run {
	std::uint64_t operations = 0;   // timed, each with its answer; what GETs brought was compared
	std::uint64_t elapsed_ns = 0;
	std::uint64_t latency_sum_ns = 0;
	std::uint64_t p50_ns = 0, p99_ns = 0;
	std::uint64_t wrong = 0;        // values that were not what was set, also after the run
	std::uint64_t messages = 0;     // of the protocol, both ways
	std::uint64_t eager = 0, reads = 0, writes = 0, lent = 0, copied = 0, one_sided = 0;
	std::uint64_t registrations = 0;  // at the client, during the timed operations
	std::uint32_t depth_max = 0;    // operations that were under way at once, of one client
	char failure[200] = {};

	double per_second() const {
		return elapsed_ns == 0 ? 0 : static_cast<double>(operations) * 1e9 / static_cast<double>(elapsed_ns);
	}
	double mean_depth() const {
		return elapsed_ns == 0 ? 0 : static_cast<double>(latency_sum_ns) / static_cast<double>(elapsed_ns);
	}
	double gigabytes(std::uint32_t size) const { return per_second() * size / 1e9; }
};

}  // namespace verbena::kvbench
