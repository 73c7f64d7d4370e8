// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/protocol.h"

#include <algorithm>

namespace verbena::rcud {

std::uint32_t queue_depth_of(const lib::OpenDevice& device) {
	const int depth = std::min(device.attributes.max_qp_wr, device.attributes.max_cqe / 2);
	return static_cast<std::uint32_t>(std::clamp(depth, 1, 16'384));
}

std::uint32_t qps_of(const lib::OpenDevice& device) {
	return static_cast<std::uint32_t>(std::max(device.attributes.max_qp, 1));
}

}  // namespace verbena::rcud
