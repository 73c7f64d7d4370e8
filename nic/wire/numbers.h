// The numbers that name things on the wire, each a type of its own: a PSN cannot be passed for a QPN, nor an lkey for
// an rkey.
#pragma once

#include <cstdint>

namespace verbena::wire {

// Queue pair number, 24 bits. 0 and 1 are the management QPs; 0xffffff is the multicast destination.
struct Qpn {
	std::uint32_t value = 0;
	friend bool operator==(const Qpn&, const Qpn&) = default;
};

inline constexpr Qpn multicast_qpn{0xff'ffff};

// Packet sequence number as it stands in a BTH: 24 bits, circular. Inside the NIC a PSN is an absolute 64-bit number
// (`transport::Psn`), so that comparisons are plain.
struct Psn24 {
	std::uint32_t value = 0;
	friend bool operator==(const Psn24&, const Psn24&) = default;
};

struct Lkey {
	std::uint32_t value = 0;
	friend bool operator==(const Lkey&, const Lkey&) = default;
};

struct Rkey {
	std::uint32_t value = 0;
	friend bool operator==(const Rkey&, const Rkey&) = default;
};

// The absolute number nearest to `near` whose low 24 bits are `psn` (9.7.1: a window of 2^23 to either side).
constexpr std::uint64_t nearest(std::uint64_t near, Psn24 psn) {
	const std::uint32_t distance = (psn.value - static_cast<std::uint32_t>(near)) & 0xffffff;
	return distance < 0x800000 ? near + distance : near + distance - 0x1000000;
}

}  // namespace verbena::wire
