// SPDX-License-Identifier: Apache-2.0
// The rate of UDP on the loopback, in the way in which the NIC uses sockets: bursts of datagrams
// that the kernel cuts and joins (GSO, GRO), as far as it can.
//
// Threads: the calling thread sends and receives.
// Owns: nothing that outlasts the call.
#pragma once

#include <expected>
#include <string>

namespace verbena::tools {

struct UdpRate {
	double gib_s = 0;
	double burst_us = 0;  // sending and receiving one burst
	bool offload = false;
};

// Measures for about this time. The error is one sentence.
std::expected<UdpRate, std::string> measure_udp_loopback(double seconds);

}  // namespace verbena::tools
