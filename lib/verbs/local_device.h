// SPDX-License-Identifier: Apache-2.0
// Finds the device of a network interface. On a host with several interfaces the best device of
// device.h may be one that the peer cannot reach, although it reaches this host.
//
// Threads: thread-safe. Each call lists the devices, which opens each of them for a moment.
// Errors: an empty name, with which choose() decides by its other rules.
#pragma once

#include <sys/socket.h>

#include <span>
#include <string>

namespace verbena::lib {

// Returns the name of the device that has this address of this host as a GID. Empty: there is none,
// or the address is a wildcard or a loopback address.
std::string device_at(const sockaddr* local);

// Returns the name of the device whose address is the source of packets to these peers, by the
// kernel's routes. Sends no packet. Empty: there is none, or no route, or a peer is on the
// loopback, or the peers are reached through different devices.
std::string device_towards(std::span<const sockaddr* const> peers);

}  // namespace verbena::lib
