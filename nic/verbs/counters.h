// SPDX-License-Identifier: Apache-2.0
// The counters that our devices show below ports/1: `counters` with the names of the kernel's
// sysfs (Documentation/ABI/stable/sysfs-class-infiniband), and `hw_counters` with those of
// Soft-RoCE and some of our own. They count this process's traffic on all our devices together,
// from 0 when it first opens one; only link_downed belongs to one device.
//
// Threads: any; these are values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "nic/cm/connection_manager.h"
#include "nic/engine/port_counts.h"
#include "nic/transport/context.h"

namespace verbena::verbs {

struct CounterValues {
	engine::PortCounts port;
	transport::Counters transport;
	cm::ConnectionManager::Counters connections;
	std::uint64_t link_downs = 0;  // the device's
};

struct Counter {
	std::string_view name;  // "counters/port_xmit_data"
	std::uint64_t (*of)(const CounterValues&);
};

std::span<const Counter> all_counters();
// The counter with this name, or null.
const Counter* find_counter(std::string_view name);

}  // namespace verbena::verbs
