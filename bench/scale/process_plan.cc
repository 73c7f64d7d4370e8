// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/process_plan.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace verbena::scale {
namespace {

// The clients of one process are limited by its descriptors and by the time of its one loop.
constexpr std::uint32_t clients_per_process = 10'000;
constexpr std::uint32_t logical_clients_per_process = 50'000;

}  // namespace

void use_all_descriptors() {
	rlimit limit{};
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t descriptors_max() {
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_max;
}

std::expected<std::uint32_t, std::string> plan_processes(
	const SwarmOptions& swarm, std::uint32_t wanted, bool own_server, std::uint64_t descriptors_max) {
	const std::uint32_t clients = swarm.clients;
	if (swarm.logical()) {
		const std::uint32_t needed = (clients + logical_clients_per_process - 1) / logical_clients_per_process;
		return std::min({wanted == 0 ? needed : wanted, swarm.queue_pairs, clients});
	}
	const Transport transport = swarm.transport;
	const std::uint64_t room = descriptors_max > descriptors_aside ? descriptors_max - descriptors_aside : 0;
	const auto shortage = [&](const char* whose, std::uint64_t needed) {
		return std::unexpected(
			fmt::format("a shortage of descriptors on this host, not a failure of the server: {} needs {} for {} TCP "
						"clients, and a process may have {}: use fewer clients, or raise the limit (ulimit -Hn)",
				whose, needed + descriptors_aside, clients, descriptors_max));
	};
	if (transport == Transport::tcp && own_server && clients > room) return shortage("the server", clients);
	// RDMA clients close their descriptor once they are connected, but all may be connecting at
	// once.
	const std::uint64_t each = std::min<std::uint64_t>(clients_per_process, std::max<std::uint64_t>(room, 1));
	const auto needed = static_cast<std::uint32_t>((clients + each - 1) / each);
	if (wanted == 0) return needed;
	if (const std::uint64_t most = (clients + wanted - 1) / wanted; transport == Transport::tcp && most > room)
		return shortage("a client process", most);
	return std::min(wanted, clients);
}

}  // namespace verbena::scale
