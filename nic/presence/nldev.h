// SPDX-License-Identifier: Apache-2.0
// The answers to requests of RDMA netlink (include/uapi/rdma/rdma_netlink.h of Linux), by which
// programs such as iproute2's rdma(8) list devices.
//
// Threads: any; pure functions.
// Errors: an answer is always given: an NLMSG_ERROR with a negative errno value for what is not
//   served.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nic/presence/facts.h"

namespace verbena::presence {

// One or more netlink messages, which the program receives at once.
using Datagram = std::vector<std::byte>;

// Programs receive with buffers of a page.
inline constexpr std::size_t datagram_size_max = 4096;

// Answers each request in `requests`, which is what the program has sent. `port`: the netlink port
// of the program's socket.
std::vector<Datagram> answer(
	std::span<const std::byte> requests, std::span<const DeviceFacts> devices, std::uint32_t port);

}  // namespace verbena::presence
