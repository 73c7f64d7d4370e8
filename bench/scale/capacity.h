// How many clients one server can have, from measured costs: a model, pure functions.
//
// What a client costs is the slope between runs with few and with many of its kind, so what the process has anyway stays out. Each kind
// needs other things: memory all, a queue pair those over RDMA, a descriptor those over TCP (over RDMA only during the set-up), a thread
// those of the engine with threads. The resource that allows the fewest clients binds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/scale/experiment.h"

namespace verbena::scale {

// Of the server's resident memory, for one more client: KiB, with the 95 % interval over repetitions.
struct Cost {
	double kib = 0, low = 0, high = 0;
};
// Repetition by repetition; both have run equally often.
Cost cost_of(std::span<const Outcome> few, std::span<const Outcome> many);

// What there is on this machine for one process.
struct Resources {
	std::uint64_t memory_bytes = 0, descriptors = 0, queue_pairs = 0, threads = 0;
};
// Everything but the queue pairs, which the server's device tells.
Resources resources_here();

enum class ClientKind : std::uint8_t { rdma, tcp_tls, tcp_clear, logical, thread };
std::string_view name_of(ClientKind kind);

struct Limit {
	ClientKind kind = ClientKind::rdma;
	Cost cost;
	std::vector<std::pair<std::string, std::uint64_t>> by;  // resource and clients; the one that binds first
	std::uint64_t clients() const { return by.front().second; }
	const std::string& binds() const { return by.front().first; }
};
Limit limit_of(ClientKind kind, const Cost& cost, const Resources& resources);
// "8.5 KiB [8.4, 8.6] a client; memory: 483,000; queue pairs: 65,536: at most 65,536, bound by queue pairs"
std::string describe(const Limit& limit);

}  // namespace verbena::scale
