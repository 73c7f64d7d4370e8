// SPDX-License-Identifier: Apache-2.0
// Cell and Repetition: the parameters of one cell of the experiment, and the results of one run of
// it.
//
// Threads: any; values without pointers, which processes send each other through pipes as they are.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/histogram.h"

namespace verbena::kvbench {

enum class System : std::uint8_t { verbena, redis, memcached };
enum class Op : std::uint8_t { set, get };
// The protocol that is asked for. one_sided: GETs only.
enum class Proto : std::uint8_t { eager, rndv, automatic, one_sided };
// A SET by rendezvous moves its value by the server's RDMA READ or by the client's RDMA WRITE.
enum class Form : std::uint8_t { read, write };
enum class Transport : std::uint8_t { rdma, tcp, unix_socket };
// The parameter that the rows of a sweep differ in.
enum class Varied : std::uint8_t { nothing, depth, warmup, iters, stalled };

constexpr std::string_view name_of(System system) {
	return system == System::verbena ? "verbena" : system == System::redis ? "redis" : "memcached";
}
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
constexpr std::string_view name_of(Transport transport) {
	return transport == Transport::rdma ? "rdma" : transport == Transport::tcp ? "tcp" : "unix";
}
constexpr std::string_view name_of(Varied varied) {
	switch (varied) {
		case Varied::depth: return "depth";
		case Varied::warmup: return "warmup";
		case Varied::iters: return "iters";
		case Varied::stalled: return "stalled";
		default: return "";
	}
}

inline constexpr std::uint32_t measured_clients_max = 1024;

// The number of keys of each client. Its lane i uses key i modulo this number.
inline constexpr std::uint32_t keys_of_client = 16;

// The parameters of one cell. The depths, `proto` and `form` mean nothing for another system.
struct Cell {
	System system = System::verbena;
	Op op = Op::set;
	Proto proto = Proto::automatic;
	Form form = Form::read;
	Transport transport = Transport::rdma;
	Varied varied = Varied::nothing;
	std::uint32_t size = 64;    // bytes of a value
	std::uint32_t window = 1;   // operations of one client under way at once
	std::uint32_t clients = 1;
	std::uint32_t stalled = 0;  // further clients, which are stopped (SIGSTOP) in a rendezvous
	std::uint32_t rx_depth = 6000, tx_depth = 6000;
	std::uint32_t eager_max = 4096;
	std::uint32_t warmup = 50;  // operations of all clients before the timed ones
	std::uint32_t iters = 60'000;  // timed operations of all clients
	double seconds_max = 1;     // ends a run that has not done its iterations by then
};

// The results of one run. The counts from `messages` on cover the timed operations, of all clients.
struct Repetition {
	std::uint64_t operations = 0;   // timed operations that were answered
	std::uint64_t elapsed_ns = 0;
	std::uint64_t latency_sum_ns = 0;
	Histogram latency_ns;
	std::uint64_t wrong = 0;        // values that differ from those set, also after the run
	std::uint64_t warmup = 0;       // operations before the timed ones
	std::uint32_t clients = 0;      // clients that did a timed operation
	std::uint32_t depth_max = 0;    // operations of one client under way at once, at most
	std::uint64_t messages = 0;     // records of the protocol, both ways
	// As in kv::ClientCounters.
	std::uint64_t eager = 0, reads = 0, writes = 0, leased = 0, copied = 0, one_sided = 0;
	std::uint64_t registrations = 0;  // memory registrations by the clients
	double core_to_core_ns = 0;     // before the run; 0: unknown
	double bytes_copied_per_second = 0;  // by one processor, before the run; 0: unknown
	char failure[200] = {};         // why the run was cut short; empty if it was not
};

}  // namespace verbena::kvbench
