// SPDX-License-Identifier: Apache-2.0
// The latencies of this experiment: that of a whole connect, of each part, and of a disconnect.
#pragma once

#include <array>

#include "bench/connect/connector.h"
#include "bench/judge/repetitions.h"

namespace verbena::connect {

inline constexpr bench::Latency total{.histogram = "total_ns"};
inline constexpr bench::Latency disconnect{.histogram = "disconnect_ns", .prefix = "disconnect_"};
// In the order of part_names.
inline constexpr std::array<bench::Latency, part_names.size()> parts{{
	{.histogram = "address_ns", .prefix = "address_"},
	{.histogram = "route_ns", .prefix = "route_"},
	{.histogram = "queue_pair_ns", .prefix = "queue_pair_"},
	{.histogram = "connect_ns", .prefix = "connect_"},
}};

inline constexpr std::array<bench::Latency, 2 + part_names.size()> latencies{
	total, parts[0], parts[1], parts[2], parts[3], disconnect};
static_assert(part_names.size() == 4);

template <class Visit> void for_each_latency(Visit&& visit) {
	for (const bench::Latency& each : latencies) visit(each);
}

}  // namespace verbena::connect
