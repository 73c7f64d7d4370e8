// What a device counts for a port: numbers in its folder in sysfs, read by libibverbs (ibv_read_sysfs_file). Drivers
// have names of their own for the same thing; Retries is what most of them count, whatever its name.
//
// A kernel's device counts for the whole host. The software NIC of this project has no folder and answers for its own
// process, of all its devices together, by the names of Soft-RoCE.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace verbena::lib {

// A number below a device's folder (ibv_device::ibdev_path); nothing if there is no such file, or no number in it.
std::optional<std::uint64_t> read_count(const std::string& folder, const std::string& file);

struct PortCounter {
	std::string name;
	std::uint64_t value = 0;
};

// hw_counters of that port, by name; empty if the device has none.
std::vector<PortCounter> hardware_counters(const std::string& folder, std::uint8_t port);

// What reliable connections had to do again. Absent: this driver does not count it.
struct Retries {
	std::optional<std::uint64_t> rnr_naks_received;     // requests that found no receive at the peer
	std::optional<std::uint64_t> rnr_naks_sent;         // and here
	std::optional<std::uint64_t> retransmissions;       // after a time-out, or because the peer missed a packet
	std::optional<std::uint64_t> retries_exceeded;      // connections that ended because no acknowledgement came
	std::optional<std::uint64_t> rnr_retries_exceeded;  // or no receive
};
Retries retries_of(std::span<const PortCounter> counters);

}  // namespace verbena::lib
