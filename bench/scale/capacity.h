// How many clients one server can have, from measured costs: a model, pure functions.
//
// What a client costs is the slope between runs with few and with many of its kind, so what the process has anyway
// stays out. Each kind needs other things: memory all, a queue pair those over RDMA, a descriptor those over TCP (over
// RDMA only during the set-up), a thread those of the engine with threads. The resource that allows the fewest clients
// binds.
//
// A descriptor costs the kernel memory too. It is counted of the whole host, where each connection has both its ends:
// half of it is the server's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/scale/experiment.h"

namespace verbena::scale {

// For one more client: KiB, with the 95 % interval over repetitions.
struct Cost {
	double kib = 0, low = 0, high = 0;
};
Cost cost_of(std::span<const double> each);
std::string describe(const Cost& cost);  // "8.50 KiB [8.40, 8.60]"

enum class ClientKind : std::uint8_t { rdma, tcp_tls, tcp_clear, logical, thread };
std::string_view name_of(ClientKind kind);

// KiB for one more client of a kind, repetition by repetition.
struct Growth {
	ClientKind kind = ClientKind::rdma;
	std::vector<double> server;  // resident memory of its process
	std::vector<double> kernel;  // for its end of the connection
};
// Both have run equally often.
Growth growth_of(ClientKind kind, std::span<const Outcome> few, std::span<const Outcome> many);

// What clients are made of, by the kinds that were measured: a queue pair, a TLS session, a descriptor. One sentence,
// or nothing.
std::string describe_parts(std::span<const Growth> kinds);

// What there is on this machine for one process.
struct Resources {
	std::uint64_t memory_bytes = 0, descriptors = 0, queue_pairs = 0, threads = 0;
};
// Everything but the queue pairs, which the server's device tells.
Resources resources_here();

struct Limit {
	ClientKind kind = ClientKind::rdma;
	Cost cost, kernel;
	std::vector<std::pair<std::string, std::uint64_t>> by;  // resource and clients; the one that binds first
	std::uint64_t clients() const { return by.front().second; }
	const std::string& binds() const { return by.front().first; }
};
Limit limit_of(const Growth& growth, const Resources& resources);
// "8.50 KiB [8.40, 8.60] a client; memory: 483000; queue pairs: 65536; at most 65536, bound by queue pairs"
std::string describe(const Limit& limit);

}  // namespace verbena::scale
