// SPDX-License-Identifier: Apache-2.0
// The choice of the devices that a program sees, by the variable VERBENA_DEVICES:
//
//     devices = [item {"," item}]
//     item    = name        list only the named devices, in this order
//             | "-" name    leave this one out
//             | "+" name    list this one after the devices that are listed by default
//
// Without a plain name the usual devices are listed: all but the loopback, or the loopback as well
// if none of the others works. A program that takes every active device would otherwise use the
// loopback as a way to another host (docs/decisions/0023).
//
// Threads: pure functions.
// Errors: a name without a device is ignored; unknown_devices() has it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::engine {

// A device that could be listed.
struct DeviceCandidate {
	std::string name;
	bool is_loopback = false;
	bool is_usual = true;  // false: only if it is named
	bool works = true;  // its port is ACTIVE and has a GID
};

// The positions in `candidates` of the devices to list, in the order in which they are listed.
std::vector<std::size_t> choose_devices(std::string_view wanted, std::span<const DeviceCandidate> candidates);

// The names in `wanted` that no candidate has.
std::vector<std::string> unknown_devices(std::string_view wanted, std::span<const DeviceCandidate> candidates);

}  // namespace verbena::engine
