// SPDX-License-Identifier: Apache-2.0
// IP and UDP headers around a RoCEv2 packet.
//
// Threads: any; no function keeps state.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "nic/wire/flow.h"

namespace verbena::trace {

// The headers of a UDP packet with this payload; IPv4 with identification 0 and DF set.
std::string ip_udp_headers(const wire::Flow&, std::span<const std::byte> payload);

}  // namespace verbena::trace
