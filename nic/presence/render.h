// SPDX-License-Identifier: Apache-2.0
// The tree that shows our devices, in the places and the formats of the kernel
// (Documentation/ABI/stable/sysfs-class-infiniband of Linux).
//
// Threads: any; a pure function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nic/presence/facts.h"
#include "nic/presence/tree.h"

namespace verbena::presence {

// The numbers of the character devices: uverbsN is 231:(192 + N), as for the kernel's first ones.
inline constexpr unsigned device_major = 231, device_minor_of_first = 192;

// The folders of ours.
inline constexpr const char* our_folders[] = {"/dev/infiniband", "/sys/class/infiniband", "/sys/class/infiniband_verbs",
	"/sys/devices/virtual/infiniband", "/sys/devices/virtual/infiniband_verbs"};

// An entry that the system has in one of our folders, and that stays visible beside ours.
using SystemEntry = std::string;  // its path

Tree render(std::span<const DeviceFacts> devices, std::span<const SystemEntry> system);

// "100 Gb/sec (4X EDR)", from the active_width and active_speed of ibv_port_attr.
std::string rate_text(std::uint32_t width, std::uint32_t speed);

}  // namespace verbena::presence
