// Cell and Run: the parameters of one cell of the experiment, and the results of one run of it.
//
// Threads: any; values without pointers, which processes send each other through pipes as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::kvbench {

enum class Op : std::uint8_t { set, get };
enum class Proto : std::uint8_t { eager, rndv, automatic, one_sided };  // one_sided: GETs only
// A SET by rendezvous moves its value by the server's RDMA READ or by the client's RDMA WRITE.
enum class Form : std::uint8_t { read, write };

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

// The parameters of one cell.
struct Cell {
	Op op = Op::set;
	Proto proto = Proto::automatic;
	Form form = Form::read;
	std::uint32_t size = 64;    // bytes of a value
	std::uint32_t window = 1;   // operations of one client under way at once
	std::uint32_t clients = 1;
	std::uint32_t warmup = 50;  // operations of all clients before the timed ones
	std::uint32_t iters = 60'000;  // timed operations of all clients
	double seconds_max = 1;     // ends a run that has not done its iterations by then
};

// The results of one run. The counts from `messages` on cover the timed operations, of all clients.
struct Run {
	std::uint64_t operations = 0;   // timed operations that were answered
	std::uint64_t elapsed_ns = 0;
	std::uint64_t latency_sum_ns = 0;
	std::uint64_t p50_ns = 0, p99_ns = 0;
	std::uint64_t wrong = 0;        // values that differ from those set, also after the run
	std::uint64_t messages = 0;     // records of the protocol, both ways
	// As in kv::ClientCounters.
	std::uint64_t eager = 0, reads = 0, writes = 0, leased = 0, copied = 0, one_sided = 0;
	std::uint64_t registrations = 0;  // memory registrations by the clients
	std::uint32_t depth_max = 0;    // operations of one client under way at once, at most
	char failure[200] = {};         // why the run was cut short; empty if it was not

	double per_second() const {
		return elapsed_ns == 0 ? 0 : static_cast<double>(operations) * 1e9 / static_cast<double>(elapsed_ns);
	}
	// Operations under way on average, by Little's law.
	double mean_depth() const {
		return elapsed_ns == 0 ? 0 : static_cast<double>(latency_sum_ns) / static_cast<double>(elapsed_ns);
	}
	// 10^9 bytes of values per second.
	double gigabytes(std::uint32_t size) const { return per_second() * size / 1e9; }
};

}  // namespace verbena::kvbench
