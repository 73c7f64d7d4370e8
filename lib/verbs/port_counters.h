// SPDX-License-Identifier: Apache-2.0
// The counters of a device's port: numbers in the device's folder in sysfs, read by
// ibv_read_sysfs_file() of libibverbs. Drivers use different names for one thing; Retries holds
// those that most drivers count.
//
// A kernel device counts for the whole host. The software NIC of this project counts for its own
// process and all its devices together; its hw_counters have the names of Soft-RoCE.
//
// Threads: thread-safe; each call reads the files anew.
// Errors: a counter that cannot be read is absent, not zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace verbena::lib {

// Reads the number in a file below a device's folder (ibv_device::ibdev_path). Empty if there is no
// such file or no number in it.
std::optional<std::uint64_t> read_count(const std::string& folder, const std::string& file);

struct PortCounter {
	std::string name;
	std::uint64_t value = 0;
};

// The hw_counters of a port, sorted by name; empty if the device has none.
std::vector<PortCounter> hardware_counters(const std::string& folder, std::uint8_t port);

// Retries of reliable connections. Empty: this driver does not count it.
struct Retries {
	std::optional<std::uint64_t> rnr_naks_received;  // requests that found no receive at the peer
	std::optional<std::uint64_t> rnr_naks_sent;  // requests of peers that found no receive here
	std::optional<std::uint64_t> retransmissions;       // after a timeout, or after a missed packet
	std::optional<std::uint64_t> retries_exceeded;      // connections that ended without an ACK
	std::optional<std::uint64_t> rnr_retries_exceeded;  // connections that ended without a receive
};
Retries retries_of(std::span<const PortCounter> counters);

}  // namespace verbena::lib
