// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/attributes.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>

namespace verbena::ucma {

namespace {

constexpr std::uint8_t hop_limit = 64;
// Code 12 is 0.64 ms (IBA 9.7.5). The kernel's rdma_cm uses code 0, which is 655 ms.
constexpr std::uint8_t min_rnr_timer = 12;

// A receiver cannot know how many bytes the sender gave, so it reports the whole field, as the
// kernel does.
template <class Parameters, std::size_t N> void copy_private(Parameters& to, const cm::PrivateData<N>& data) {
	to.private_data_len = static_cast<std::uint8_t>(N);
	std::memcpy(to.private_data, data.bytes().data(), N);
}

}  // namespace

cm::Half half_of(const rdma_ucm_conn_param& p, std::uint32_t starting_psn) {
	return {.qpn = {p.qp_num & 0xffffff},
		.starting_psn = {starting_psn},
		.responder_resources = p.responder_resources,
		.initiator_depth = p.initiator_depth,
		.retry_count = std::min<std::uint8_t>(p.retry_count, 7),
		.rnr_retry_count = std::min<std::uint8_t>(p.rnr_retry_count, 7),
		.flow_control = p.flow_control != 0,
		.srq = p.srq != 0,
		.q_key = p.qkey};
}

rdma_ucm_event_resp event_of(const cm::Message& message) {
	rdma_ucm_event_resp event{};
	rdma_ucm_conn_param& conn = event.param.conn;
	if (const auto* req = std::get_if<cm::Req>(&message)) {
		copy_private(conn, req->data);
		conn.responder_resources = req->initiator_depth;
		conn.initiator_depth = req->responder_resources;
		conn.flow_control = req->flow_control;
		conn.retry_count = req->retry_count;
		conn.rnr_retry_count = req->rnr_retry_count;
		conn.srq = req->srq;
		conn.qp_num = req->qpn.value;
	} else if (const auto* rep = std::get_if<cm::Rep>(&message)) {
		copy_private(conn, rep->data);
		conn.responder_resources = rep->initiator_depth;
		conn.initiator_depth = rep->responder_resources;
		conn.flow_control = rep->flow_control;
		conn.rnr_retry_count = rep->rnr_retry_count;
		conn.srq = rep->srq;
		conn.qp_num = rep->qpn.value;
	} else if (const auto* rej = std::get_if<cm::Rej>(&message)) {
		copy_private(conn, rej->data);
	} else if (const auto* request = std::get_if<cm::SidrReq>(&message)) {
		copy_private(event.param.ud, request->data);
	} else if (const auto* answer = std::get_if<cm::SidrRep>(&message)) {
		copy_private(event.param.ud, answer->data);
		event.param.ud.qp_num = answer->qpn.value;
		event.param.ud.qkey = answer->q_key;
	}
	return event;
}

ib_uverbs_ah_attr path_to(const Id& id, const wire::Gid& destination) {
	ib_uverbs_ah_attr path{};
	std::ranges::copy(destination, path.grh.dgid);
	path.grh.sgid_index = id.place ? id.place->gid_index : 0;
	path.grh.hop_limit = hop_limit;
	path.grh.traffic_class = id.traffic_class;
	path.is_global = 1;
	path.port_num = 1;
	return path;
}

namespace {

void fill_datagram(ib_uverbs_qp_attr& a, const Id& id, std::uint32_t state) {
	a.qkey = id.q_key ? id.q_key : default_q_key;
	if (state == IBV_QPS_INIT) a.qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (state != IBV_QPS_RTS) return;
	a.qp_attr_mask |= IBV_QP_SQ_PSN;
	a.sq_psn = id.starting_psn;
}

void fill_init(ib_uverbs_qp_attr& a, const cm::Connection* connection) {
	a.qp_attr_mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (!connection) return;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	// On the passive side the program has not accepted yet, so allow what the peer asks for.
	if (connection->own.responder_resources || connection->other.initiator_depth)
		a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void fill_ready_to_receive(ib_uverbs_qp_attr& a, const Id& id, const cm::Connection& c, const ReadLimits& reads) {
	a.qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	wire::Gid destination;
	std::memcpy(destination.data(), c.route.addresses.destination, 16);
	a.ah_attr = path_to(id, destination);
	a.ah_attr.grh.flow_label = c.route.addresses.flow_label;
	a.ah_attr.grh.traffic_class = c.route.addresses.traffic_class;
	a.path_mtu = c.path_mtu;
	a.dest_qp_num = c.other.qpn.value;
	a.rq_psn = c.own.starting_psn.value;  // the PSN that this end asked the peer to begin with
	if (c.transport != cm::Transport::rc) return;
	a.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	// `own` has the program's limits only once it has connected or accepted.
	a.max_dest_rd_atomic = c.other.initiator_depth;
	if (c.active || c.state == cm::State::rep_sent || c.state == cm::State::established)
		a.max_dest_rd_atomic = std::max(a.max_dest_rd_atomic, c.own.responder_resources);
	a.max_dest_rd_atomic = std::min(a.max_dest_rd_atomic, reads.served);
	a.min_rnr_timer = min_rnr_timer;
}

void fill_ready_to_send(ib_uverbs_qp_attr& a, const cm::Connection& c, const ReadLimits& reads) {
	a.qp_attr_mask |= IBV_QP_SQ_PSN;
	a.sq_psn = c.other.starting_psn.value;  // the PSN that the peer asked this end to begin with
	if (c.transport != cm::Transport::rc) return;
	a.qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	a.timeout = c.ack_timeout;
	a.retry_cnt = c.active ? c.own.retry_count : c.other.retry_count;
	a.rnr_retry = c.other.rnr_retry_count;
	a.max_rd_atomic =
		c.active ? std::min(c.own.initiator_depth, c.other.responder_resources) : c.other.responder_resources;
	a.max_rd_atomic = std::min(a.max_rd_atomic, reads.sent);
}

}  // namespace

bool fill_qp_attributes(ib_uverbs_qp_attr& a, const Id& id, const cm::Connection* connection, const ReadLimits& reads,
	std::uint32_t state) {
	a.qp_state = state;
	a.port_num = 1;
	a.qp_attr_mask = IBV_QP_STATE;
	if (id.is_datagram()) {
		fill_datagram(a, id, state);
		return true;
	}
	// Before there is a connection, only the attributes of INIT are known.
	if (!connection && state != IBV_QPS_INIT) return false;
	const bool peer_known = connection && connection->other.qpn.value != 0;
	switch (state) {
		case IBV_QPS_INIT: fill_init(a, connection); return true;
		case IBV_QPS_RTR:
			if (peer_known) fill_ready_to_receive(a, id, *connection, reads);
			return peer_known;
		case IBV_QPS_RTS:
			if (peer_known) fill_ready_to_send(a, *connection, reads);
			return peer_known;
		default: return true;
	}
}

}  // namespace verbena::ucma
