// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace verbena::sim {

using queues::ReceiveWqe;
using queues::SendOpcode;
using queues::SendWqe;
using transport::QpState;
using transport::QpType;

Endpoint::Endpoint(Host& host, const EndpointOptions& options)
	: host(host),
	  send_cq(options.completions),
	  receive_cq(options.completions),
	  qp(*host.adapter.create_qp({.type = options.type,
		  .protection_domain = options.protection_domain,
		  .send_cq = &send_cq,
		  .recv_cq = &receive_cq,
		  .shared_receive_queue = options.shared_receive_queue,
		  .send_entries = options.send_entries,
		  .receive_entries = options.receive_entries,
		  .send_segments = options.segments,
		  .receive_segments = options.segments,
		  .inline_bytes = options.inline_bytes,
		  .signal_all = options.signal_all,
		  .user = this})) {}

Endpoint::~Endpoint() { host.adapter.destroy_qp(qp); }

bool Endpoint::post(std::span<const Work> works) {
	const std::uint32_t head = qp.sq_head.load(std::memory_order_relaxed);
	if (head + works.size() - qp.sq_tail.load(std::memory_order_acquire) > qp.sq_mask + 1) return false;
	// The same steps as post_send() of nic/verbs/data_path.cc, without its checks.
	std::uint32_t index = head;
	for (const Work& work : works) {
		SendWqe& wqe = qp.wqe(index++);
		wqe = SendWqe{};
		wqe.wr_id = work.wr_id;
		wqe.opcode = work.opcode;
		wqe.flags = work.flags;
		wqe.immediate = work.immediate;
		if (!work.inline_data.empty()) {
			check(work.inline_data.size() <= qp.cold->inline_max, "inline data fits the queue");
			wqe.flags |= queues::send_inline;
			wqe.length = static_cast<std::uint32_t>(work.inline_data.size());
			std::copy(work.inline_data.begin(), work.inline_data.end(), wqe.inline_data());
		} else {
			check(work.segments.size() <= qp.cold->send_segments_max, "the segments fit the queue");
			wqe.segment_count = static_cast<std::uint8_t>(work.segments.size());
			for (std::size_t i = 0; i < work.segments.size(); ++i) {
				wqe.segments()[i] = work.segments[i];
				wqe.length += work.segments[i].length;
			}
		}
		if (qp.type == QpType::ud) {
			wqe.datagram = {.outlet = &host.fabric.outlet(host, work.to->host),
				.qpn = work.to->qp.qpn,
				.q_key = work.q_key,
				.address_index = 0};
		} else if (work.opcode == SendOpcode::bind_window) {
			wqe.bind = {work.bind.address, work.bind.length, work.bind.window_key, work.bind.new_key,
				work.bind.region_key, work.bind.access};
		} else if (work.opcode == SendOpcode::compare_swap || work.opcode == SendOpcode::fetch_add) {
			wqe.atomic = {work.remote_address, work.rkey, 0, work.compare_or_add, work.swap};
		} else {
			wqe.rdma = {work.remote_address, work.rkey};
		}
	}
	qp.sq_head.store(index, std::memory_order_release);
	host.fabric.pass(host, [&] { host.adapter.transmit(qp); });
	return true;
}

bool Endpoint::post_receive(std::uint64_t wr_id, std::span<const queues::Segment> segments) {
	ReceiveWqe* wqe = qp.receive_queue->prepare(0);
	if (!wqe) return false;
	check(segments.size() <= qp.receive_queue->segments_max(), "the segments fit the queue");
	wqe->wr_id = wr_id;
	wqe->length = 0;
	wqe->segment_count = static_cast<std::uint32_t>(segments.size());
	for (std::size_t i = 0; i < segments.size(); ++i) {
		wqe->segments()[i] = segments[i];
		wqe->length += segments[i].length;
	}
	qp.receive_queue->commit(1);
	return true;
}

bool Endpoint::modify(const adapter::QpChange& change) {
	bool done = false;
	host.fabric.pass(host, [&] { done = host.adapter.modify_qp(qp, change); });
	return done;
}

void Endpoint::poll() {
	while (send_cq.drain(1 << 20, [&](const queues::Completion& completion, int) { sent.push_back(completion); })) {}
	while (
		receive_cq.drain(1 << 20, [&](const queues::Completion& completion, int) { received.push_back(completion); })) {
	}
}

void make_ready_to_receive(
	Endpoint& self, Endpoint& peer, const ConnectionOptions& options, std::uint32_t receive_psn) {
	using namespace transport;
	QueuePairAttributes attributes;
	attributes.access = options.access;
	attributes.path_mtu = options.path_mtu;
	attributes.max_dest_rd_atomic = options.rd_atomic;
	attributes.min_rnr_timer = options.min_rnr_timer;
	bool done = self.modify({.mask = transport::qp_state | qp_pkey_index | qp_port | qp_access_flags,
		.state = QpState::init,
		.attributes = attributes});
	const std::uint32_t reliable = self.qp.type == QpType::rc ? qp_max_dest_rd_atomic | qp_min_rnr_timer : 0;
	done = done &&
		self.modify({.mask = transport::qp_state | qp_av | qp_path_mtu | qp_destination_qpn | qp_rq_psn | reliable,
			.state = QpState::rtr,
			.attributes = attributes,
			.receive_psn = receive_psn,
			.destination_qpn = peer.qp.qpn,
			.outlet = &self.host.fabric.outlet(self.host, peer.host)});
	check(done, "to RTR");
}

void make_ready_to_send(Endpoint& self, const ConnectionOptions& options, std::uint32_t send_psn) {
	using namespace transport;
	QueuePairAttributes attributes;
	attributes.timeout = options.timeout;
	attributes.retry_count = options.retry_count;
	attributes.rnr_retry = options.rnr_retry;
	attributes.max_rd_atomic = options.rd_atomic;
	const std::uint32_t reliable =
		self.qp.type == QpType::rc ? qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic : 0;
	check(self.modify({.mask = transport::qp_state | qp_sq_psn | reliable,
			  .state = QpState::rts,
			  .attributes = attributes,
			  .send_psn = send_psn}),
		"to RTS");
}

void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options) {
	make_ready_to_receive(a, b, options, options.psn_b);
	make_ready_to_receive(b, a, options, options.psn_a);
	make_ready_to_send(a, options, options.psn_a);
	make_ready_to_send(b, options, options.psn_b);
}

void activate(Endpoint& datagrams, std::uint32_t q_key, std::uint8_t path_mtu) {
	using namespace transport;
	QueuePairAttributes attributes;
	attributes.q_key = q_key;
	// A datagram queue pair has no path MTU attribute; it uses the port's MTU.
	datagrams.qp.mtu_code = path_mtu;
	datagrams.qp.mtu_shift = static_cast<std::uint8_t>(7 + path_mtu);
	const bool done = datagrams.modify({.mask = transport::qp_state | qp_pkey_index | qp_port | qp_qkey,
						  .state = QpState::init,
						  .attributes = attributes}) &&
		datagrams.to_state(QpState::rtr) &&
		datagrams.modify({.mask = transport::qp_state | qp_sq_psn, .state = QpState::rts, .send_psn = 7});
	check(done, "UD to RTS");
}

}  // namespace verbena::sim
