// SPDX-License-Identifier: Apache-2.0
// The numbers that identify things in packets. Each is a type of its own, so that a PSN cannot be
// passed for a QPN.
#pragma once

#include <cstdint>

namespace verbena::wire {

// Queue pair number, 24 bits. 0 and 1 are the management QPs; 0xffffff is the multicast
// destination.
struct Qpn {
	std::uint32_t value = 0;
	friend bool operator==(const Qpn&, const Qpn&) = default;
};

inline constexpr Qpn multicast_qpn{0xff'ffff};

// Packet sequence number as in a BTH: 24 bits, circular. Inside the NIC a PSN is an absolute 64-bit
// number (`transport::Psn`), so that plain comparisons are right.
struct Psn24 {
	std::uint32_t value = 0;
	friend bool operator==(const Psn24&, const Psn24&) = default;
};

struct Rkey {
	std::uint32_t value = 0;
	friend bool operator==(const Rkey&, const Rkey&) = default;
};

// The absolute number nearest to `near` whose low 24 bits are `psn`. IBA 9.7.1: half of the 2^24
// numbers lie ahead and half behind.
constexpr std::uint64_t nearest(std::uint64_t near, Psn24 psn) {
	const std::uint32_t distance = (psn.value - static_cast<std::uint32_t>(near)) & 0xffffff;
	return distance < 0x800000 ? near + distance : near + distance - 0x1000000;
}

}  // namespace verbena::wire
