// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked_peers.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#include "nic/status/door.h"
#include "nic/verbs/checked.h"

namespace verbena::verbs {
namespace {

// A peer that does not answer is asked this many times.
constexpr unsigned tries_max = 8;

// The number of times that each queue pair's peer was asked; tries_max once they were compared.
std::map<std::uint32_t, unsigned>& tries() {
	static auto& instance = *new std::map<std::uint32_t, unsigned>;
	return instance;
}

rules::Book::ConnectionFacts facts_of(const status::Process& process, const status::QueuePair& qp) {
	return {.pid = process.pid,
		.qpn = qp.qpn,
		.path_mtu = qp.path_mtu,
		.max_rd_atomic = qp.max_rd_atomic,
		.max_dest_rd_atomic = qp.max_dest_rd_atomic};
}

bool is_connected(const status::QueuePair& qp) {
	return qp.type == "RC" && qp.peer_pid != 0 && (qp.state == "RTR" || qp.state == "RTS");
}

const status::QueuePair* peer_of(
	const std::vector<status::Process>& all, const status::QueuePair& qp, const status::Process*& owner) {
	for (const status::Process& process : all) {
		if (process.pid != qp.peer_pid) continue;
		const auto found = std::ranges::find(process.queue_pairs, qp.peer_qpn, &status::QueuePair::qpn);
		if (found == process.queue_pairs.end() || !is_connected(*found)) continue;
		owner = &process;
		return &*found;
	}
	return nullptr;
}

}  // namespace

void compare_with_peers() {
	if (!checked()->has_new_connections()) return;
	const std::vector<status::Process> all = status::ask_all();
	const auto own = std::ranges::find(all, static_cast<std::uint32_t>(getpid()), &status::Process::pid);
	if (own == all.end()) return;
	bool again = false;
	for (const status::QueuePair& qp : own->queue_pairs) {
		unsigned& asked = tries()[qp.qpn];
		if (asked >= tries_max || qp.state != "RTS" || !is_connected(qp)) continue;
		const status::Process* owner = nullptr;
		if (const status::QueuePair* const peer = peer_of(all, qp, owner)) {
			checked()->compare(qp.qpn, facts_of(*own, qp), facts_of(*owner, *peer));
			asked = tries_max;
		} else {
			again = ++asked < tries_max || again;
		}
	}
	if (!again) checked()->connections_are_known();
}

}  // namespace verbena::verbs
