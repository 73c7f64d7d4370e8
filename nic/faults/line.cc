// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/line.h"

#include <algorithm>

namespace verbena::faults {

bool Line::add(Packet packet, Nanoseconds now, Nanoseconds delay, std::uint64_t bits_per_second) {
	if (packets_.size() >= packets_max) return false;
	Nanoseconds transmitted = now;
	if (bits_per_second != 0) {
		const double seconds = static_cast<double>(packet.bytes.size() * 8) / static_cast<double>(bits_per_second);
		transmitted = free_at_ = std::max(free_at_, now) + static_cast<Nanoseconds>(seconds * 1e9);
	}
	packets_.emplace(Moment{transmitted + delay, added_++}, std::move(packet));
	return true;
}

}  // namespace verbena::faults
