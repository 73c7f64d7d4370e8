// SPDX-License-Identifier: Apache-2.0
// The counters of processes on the NIC as metrics, under the names that the infiniband collector of
// node_exporter gives the kernel's counters (docs/metrics.md).
//
// Threads: any.
#pragma once

#include <span>
#include <vector>

#include "lib/metrics/families.h"
#include "nic/status/status.h"

namespace verbena::tools {

// The processes on the NIC that this process has started, and those that they have.
std::vector<status::Process> own_processes();

metrics::Families nic_families(std::span<const status::Process>);

}  // namespace verbena::tools
