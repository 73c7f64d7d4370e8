// SPDX-License-Identifier: Apache-2.0
// The environment of this experiment's tables: the device, the link, the settings, the machine.
//
// Threads: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/table/row.h"

namespace verbena::scale {

// The device that the servers and clients of this host choose.
struct DeviceHere {
	std::string device, kind, gid, mtu, link;  // empty if there is no device
};
// Opens the device for a moment in a process of its own, so that the caller can still fork.
DeviceHere device_here(bool both_ends_on_this_host);

// `settings` are the options that change what is measured; `server` is "own" or "elsewhere".
struct Surroundings {
	DeviceHere device;
	std::string server = "own";
	std::string settings, command_line;
};
// The lines of the environment; core_to_core_ns is the median over the repetitions of all rows.
bench::Environment environment_of(const Surroundings& surroundings, std::span<const bench::Json> rows);

}  // namespace verbena::scale
