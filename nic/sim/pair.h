// SPDX-License-Identifier: Apache-2.0
// Two hosts with one connected queue pair each, for scenarios that are written step by step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "nic/sim/endpoint.h"

namespace verbena::sim {

struct Pair {
	explicit Pair(
		const FabricOptions& options, const ConnectionOptions& connection = {}, const EndpointOptions& ends = {})
		: fabric(options), host_a(fabric.add_host()), host_b(fabric.add_host()), a(host_a, ends), b(host_b, ends) {
		if (ends.type == transport::QpType::ud) {
			activate(a, 0x11111111);
			activate(b, 0x11111111);
		} else {
			connect(a, b, connection);
		}
	}

	// Runs until no event is left, then polls both ends. False if the run reached a bound.
	bool settle() {
		const bool rest = fabric.settle();
		a.poll();
		b.poll();
		return rest;
	}

	Fabric fabric;
	Host& host_a;
	Host& host_b;
	Endpoint a, b;
};

// Fills the region with a pattern that depends on `seed`.
inline void fill(Region& region, unsigned seed) {
	unsigned i = 0;
	for (std::byte& b : region.bytes()) b = static_cast<std::byte>((i++ * 2654435761u >> 13) + seed);
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }
inline bool untouched(std::span<const std::byte> bytes) {
	return std::ranges::all_of(bytes, [](std::byte b) { return b == poison; });
}

inline std::vector<queues::Status> statuses(const std::vector<queues::Completion>& completions) {
	std::vector<queues::Status> list;
	for (const queues::Completion& completion : completions) list.push_back(completion.status);
	return list;
}

inline std::vector<std::uint64_t> wr_ids(const std::vector<queues::Completion>& completions) {
	std::vector<std::uint64_t> list;
	for (const queues::Completion& completion : completions) list.push_back(completion.wr_id);
	return list;
}

}  // namespace verbena::sim
