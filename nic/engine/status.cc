// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/status.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "nic/engine/link.h"
#include "nic/transport/in_flight.h"
#include "nic/wire/gid_text.h"

namespace verbena::engine {
namespace {

using transport::QpState;
using transport::QpType;

const char* name_of(QpState state) {
	static constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	const auto index = static_cast<std::size_t>(state);
	return index < std::size(names) ? names[index] : "?";
}

const char* name_of(QpType type) { return type == QpType::rc ? "RC" : type == QpType::uc ? "UC" : "UD"; }

const char* wait_of(const transport::QueuePair& qp) {
	if (qp.sq_empty()) return "nothing";
	// The last answer was an RNR NAK, also while the request is on its way once more.
	if ((qp.blocked & transport::blocked_rnr) || qp.cold->una_at_rnr == qp.una) return "receive";
	if (qp.blocked & transport::blocked_ring) return "room";
	return qp.blocked & transport::blocked_window ? "window" : "answer";
}

// The part that is copied under the engine's lock; the words are made without it.
struct Copied {
	std::uint32_t qpn, peer_qpn, peer_pid;
	std::uint32_t sends_posted, sends_done, receives_posted, receives_taken, retries_left, unpolled;
	std::uint32_t path_mtu, max_rd_atomic, max_dest_rd_atomic;
	QpType type;
	QpState state;
	const char *link, *waits;
	wire::Gid peer;
};

std::uint32_t pid_at(const Link& link) {
	if (link.is_dead_end()) return 0;
	return static_cast<std::uint32_t>(link.is_self() ? getpid() : link.peer().pid);
}

Copied copy(const transport::QueuePair& qp) {
	const bool connected = qp.type != QpType::ud && qp.outlet != nullptr;
	const bool local = connected && qp.outlet->lossless;
	Copied c{.qpn = qp.qpn,
		.peer_qpn = connected ? qp.destination_qpn : 0,
		.peer_pid = local ? pid_at(*static_cast<const Link*>(qp.outlet->user)) : 0,
		.sends_posted = qp.sq_head.load(std::memory_order_relaxed),
		.sends_done = qp.sq_tail.load(std::memory_order_relaxed),
		.receives_posted = qp.receive_queue->committed(),
		.receives_taken = qp.receive_queue->taken(),
		.retries_left = qp.cold->retries_left,
		.unpolled = qp.send_cq->unpolled(),
		.path_mtu = qp.path_mtu(),
		.max_rd_atomic = qp.cold->attributes.max_rd_atomic,
		.max_dest_rd_atomic = qp.cold->attributes.max_dest_rd_atomic,
		.type = qp.type,
		.state = qp.state.load(std::memory_order_relaxed),
		.link = !connected ? "none"
			: local        ? "memory"
						   : "udp",
		.waits = wait_of(qp),
		.peer = {}};
	if (qp.recv_cq != qp.send_cq) c.unpolled += qp.recv_cq->unpolled();
	if (connected) std::ranges::copy(qp.cold->attributes.destination_gid, c.peer.begin());
	return c;
}

status::QueuePair describe(const Copied& c) {
	return {.qpn = c.qpn,
		.type = name_of(c.type),
		.state = name_of(c.state),
		.peer_qpn = c.peer_qpn,
		.peer_pid = c.peer_pid,
		.link = c.link,
		.waits = c.waits,
		.sends_posted = c.sends_posted,
		.sends_done = c.sends_done,
		.receives_posted = c.receives_posted,
		.receives_taken = c.receives_taken,
		.retries_left = c.retries_left,
		.unpolled = c.unpolled,
		.peer_address = c.peer == wire::Gid{} ? "-" : wire::text_of(c.peer).bytes,
		.path_mtu = c.path_mtu,
		.max_rd_atomic = c.max_rd_atomic,
		.max_dest_rd_atomic = c.max_dest_rd_atomic};
}

}  // namespace

std::vector<status::QueuePair> queue_pairs_of(Engine& engine) {
	std::vector<Copied> copied;
	engine.control([&](adapter::ChannelAdapter& adapter) {
		copied.reserve(adapter.queue_pairs().count());
		adapter.queue_pairs().for_each([&](const transport::QueuePair& qp) { copied.push_back(copy(qp)); });
	});
	std::vector<status::QueuePair> all;
	all.reserve(copied.size());
	std::ranges::transform(copied, std::back_inserter(all), describe);
	return all;
}

}  // namespace verbena::engine
