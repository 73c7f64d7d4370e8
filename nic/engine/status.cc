#include "nic/engine/status.h"

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

status::QueuePair describe(const transport::QueuePair& qp) {
	status::QueuePair d{.qpn = qp.qpn, .type = name_of(qp.type)};
	const QpState state = qp.state.load(std::memory_order_relaxed);
	d.state = name_of(state);
	d.link = "none";
	d.peer_address = "-";
	d.waits = wait_of(qp);
	d.sends_posted = qp.sq_head.load(std::memory_order_relaxed);
	d.sends_done = qp.sq_tail.load(std::memory_order_relaxed);
	d.receives_posted = qp.receive_queue->committed();
	d.receives_taken = qp.receive_queue->taken();
	d.retries_left = qp.cold->retries_left;
	d.unpolled = qp.send_cq->unpolled();
	if (qp.recv_cq != qp.send_cq) d.unpolled += qp.recv_cq->unpolled();
	if (qp.type == QpType::ud || !qp.outlet) return d;
	d.peer_qpn = qp.destination_qpn;
	wire::Gid peer;
	std::ranges::copy(qp.cold->attributes.destination_gid, peer.begin());
	d.peer_address = wire::text_of(peer).bytes;
	d.link = qp.outlet->lossless ? "memory" : "udp";
	if (!qp.outlet->lossless) return d;
	const Link& link = *static_cast<const Link*>(qp.outlet->user);
	if (link.is_self()) d.peer_pid = link.is_dead_end() ? 0 : static_cast<std::uint32_t>(getpid());
	else d.peer_pid = static_cast<std::uint32_t>(link.peer().pid);
	return d;
}

}  // namespace

std::vector<status::QueuePair> queue_pairs_of(Engine& engine) {
	std::vector<status::QueuePair> all;
	engine.control([&](adapter::ChannelAdapter& adapter) {
		all.reserve(adapter.queue_pairs().count());
		adapter.queue_pairs().for_each([&](const transport::QueuePair& qp) { all.push_back(describe(qp)); });
	});
	return all;
}

}  // namespace verbena::engine
