#include "bench/rcud/protocol.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::rcud {

lib::SocketAddress address_for_connection(const ibv_gid& gid, std::uint16_t port) {
	const auto address = lib::address_of(gid, port);
	if (!address)
		throw Failure(fmt::format(
			"rdma_cm needs an IP address, but the link-local GID {} has none without its interface: choose another "
			"--gid-index",
			lib::format_gid(gid)));
	return *address;
}

std::uint32_t queue_depth_of(const lib::OpenDevice& device) {
	const int depth = std::min(device.attributes.max_qp_wr, device.attributes.max_cqe / 2);
	return static_cast<std::uint32_t>(std::clamp(depth, 1, 16'384));
}

}  // namespace verbena::rcud
