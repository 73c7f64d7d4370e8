// SPDX-License-Identifier: Apache-2.0
// The kernel's answers to RDMA netlink, for machines that have real devices beside ours.
//
// Threads: any.
// Errors: if the kernel does not answer, our answers stand alone.
#pragma once

#include "nic/presence/nldev.h"

namespace verbena::presence {

// Sends the program's requests to the kernel and puts its answers together with `ours`. `port`: the
// netlink port of the program's socket, to which the answers are addressed.
std::vector<Datagram> merge_with_kernel(
	std::span<const std::byte> requests, std::vector<Datagram> ours, std::uint32_t port);

// The answers to one request, from ours and the kernel's: of two lists, both without the end of
// the first; of a list and an error, the list; of two answers, ours unless it is an error.
std::vector<Datagram> merge(std::vector<Datagram> ours, std::vector<Datagram> kernels);

}  // namespace verbena::presence
