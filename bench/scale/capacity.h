// SPDX-License-Identifier: Apache-2.0
// A model of the number of clients that one server can have, from the measured costs in the rows of
// a table. Its results are lines of the table's environment, which the judge makes once more.
//
// The cost of a client is the slope between the rows with the fewest and the most clients of its
// kind, which leaves out the memory that the process needs without clients. All kinds need memory;
// clients over RDMA need a queue pair, those over TCP a descriptor (over RDMA only during the
// set-up), those of the engine with threads a thread. The resource that allows the fewest clients
// is the limit.
//
// A descriptor also costs memory of the kernel. It is counted for the whole host, which has both
// ends of each connection; half of it is the server's.
//
// Threads: pure functions, except resources_here().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/table/row.h"

namespace verbena::scale {

// The cost of one more client in KiB: the median, and its 95 % interval over the repetitions.
struct Cost {
	double kib = 0, low = 0, high = 0;
};
Cost cost_of(std::span<const double> each);
std::string describe(const Cost& cost);  // "8.50 KiB [8.40, 8.60]"

enum class ClientKind : std::uint8_t { rdma, tcp_tls, tcp_clear, logical, thread };
std::string_view name_of(ClientKind kind);
// Empty if the row's clients are of no kind whose cost is modelled.
std::optional<ClientKind> kind_of(const bench::Json& row);

// The KiB for one more client of a kind; one value for each repetition.
struct Growth {
	ClientKind kind = ClientKind::rdma;
	std::vector<double> server;  // resident memory of the server's process
	std::vector<double> kernel;  // memory of the kernel for the server's end of the connection
};
// From the repetitions of two rows. Those beyond the shorter list do not count.
Growth growth_of(ClientKind kind, const bench::Json& few, const bench::Json& many);

// The costs of the parts of a client in one sentence: a queue pair, a TLS session, a descriptor.
// Empty unless the kinds rdma, tcp_tls and tcp_clear were measured.
std::string describe_parts(std::span<const Growth> kinds);

// The resources of this machine that one process can have.
struct Resources {
	std::uint64_t memory_bytes = 0, descriptors = 0, queue_pairs = 0, threads = 0;
};
// All resources except the queue pairs, which are an attribute of the server's device.
Resources resources_here();
// As the environment has them: "memory_bytes 8589934592, descriptors 20000, threads 4096".
std::string describe(const Resources& resources);
// Zeros if the environment has none.
Resources resources_of(const bench::Environment& environment);

// The number of clients that each resource allows.
struct Limit {
	ClientKind kind = ClientKind::rdma;
	Cost cost, kernel;
	std::vector<std::pair<std::string, std::uint64_t>> by;  // resource, clients; the fewest first
	std::uint64_t clients() const { return by.front().second; }
	const std::string& binds() const { return by.front().first; }
};
Limit limit_of(const Growth& growth, const Resources& resources);
// "8.50 KiB [8.40, 8.60] a client; memory: 483000; queue pairs: 65536; at most 65536, bound by
// queue pairs"
std::string describe(const Limit& limit);

// The names of the lines in the environment: "capacity rdma", "capacity_parts".
inline constexpr std::string_view capacity_prefix = "capacity ", capacity_parts = "capacity_parts",
								  capacity_resources = "capacity_resources";
// The lines that follow from the rows: one for each kind that has two numbers of clients, and the
// parts. Throws Json::exception if a repetition lacks the server's memory.
bench::Environment capacity_of(std::span<const bench::Json> rows, Resources resources);

}  // namespace verbena::scale
