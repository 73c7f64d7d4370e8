// SPDX-License-Identifier: Apache-2.0
// ConnectionManager: the commands of the program that owns a connection, for the active end, the
// passive end, and either end.
#include <algorithm>

#include "nic/cm/connection_manager.h"

namespace verbena::cm {

// The active end

CommId ConnectionManager::connect(Nanoseconds now, const Route& route, const Request& request, void* user) {
	Connection& c = create(route, user);
	c.active = true;
	c.service = request.service;
	c.own_guid = request.ca_guid;
	c.own = request.own;
	c.transport = request.transport;
	c.path_mtu = request.path_mtu;
	c.ack_timeout = request.ack_timeout;
	c.transaction = c.request_transaction = new_transaction(c);
	const Req req{.local = c.local,
		.service = request.service,
		.ca_guid = request.ca_guid,
		.q_key = request.own.q_key,
		.qpn = request.own.qpn,
		.responder_resources = request.own.responder_resources,
		.initiator_depth = request.own.initiator_depth,
		.transport = request.transport,
		.flow_control = request.own.flow_control,
		.starting_psn = request.own.starting_psn,
		.retry_count = static_cast<std::uint8_t>(request.own.retry_count & 7),
		.rnr_retry_count = static_cast<std::uint8_t>(request.own.rnr_retry_count & 7),
		.path_mtu = request.path_mtu,
		.srq = request.own.srq,
		.local_gid = gid_of(route.addresses.source),
		.remote_gid = gid_of(route.addresses.destination),
		.flow_label = route.addresses.flow_label,
		.traffic_class = route.addresses.traffic_class,
		.hop_limit = route.addresses.hop_limit,
		.ack_timeout = request.ack_timeout,
		.addresses = request.addresses,
		.data = PrivateData<56>(request.data)};
	request_service(now, c, req, request.service_patience);
	return c.local;
}

CommId ConnectionManager::resolve(Nanoseconds now, const Route& route, const Request& request, void* user) {
	Connection& c = create(route, user);
	c.active = true;
	c.service = request.service;
	c.transaction = c.request_transaction = new_transaction(c);
	c.is_datagram = true;
	const SidrReq req{.request = c.local,
		.service = request.service,
		.addresses = request.addresses,
		.data = PrivateData<180>(request.data)};
	request_service(now, c, req, request.service_patience);
	return c.local;
}

bool ConnectionManager::confirm(CommId id) {
	Connection* c = find(id);
	if (!c || c->state != State::rep_received) return false;
	// IBA 12.9: the active end is established when it sends the RTU. No timer repeats the RTU; a
	// repeated REP shows that it was lost.
	c->state = State::established;
	const Rtu rtu{c->local, c->remote, {}};
	c->last = write_message({c->transaction, rtu});
	send(*c, rtu);
	return true;
}

// The passive end

bool ConnectionManager::reply(
	Nanoseconds now, CommId id, const Half& own, std::uint64_t ca_guid, std::span<const std::byte> data) {
	Connection* c = find(id);
	if (!c || c->state != State::req_received) return false;
	c->own = own;
	c->state = State::rep_sent;
	--pending_requests_;
	const Rep rep{.local = c->local,
		.remote = c->remote,
		.q_key = own.q_key,
		.qpn = own.qpn,
		.starting_psn = own.starting_psn,
		.responder_resources = own.responder_resources,
		.initiator_depth = own.initiator_depth,
		.flow_control = own.flow_control,
		.rnr_retry_count = static_cast<std::uint8_t>(own.rnr_retry_count & 7),
		.srq = own.srq,
		.ca_guid = ca_guid,
		.data = PrivateData<196>(data)};
	send_with_retries(now, *c, rep, patience);
	return true;
}

bool ConnectionManager::answer(Nanoseconds now, CommId id, std::uint8_t status, wire::Qpn qpn, std::uint32_t q_key,
	std::span<const std::byte> data) {
	Connection* c = find(id);
	if (!c || c->state != State::sidr_req_received) return false;
	--pending_requests_;
	c->state = State::sidr_answered;
	const SidrRep rep{c->remote, status, qpn, c->service, q_key, PrivateData<136>(data)};
	c->last = write_message({c->transaction, rep});
	send(*c, rep);
	timers_.schedule(*c, now + patience);  // until then a repeated request gets the answer again
	return true;
}

bool ConnectionManager::establish(CommId id) {
	Connection* c = find(id);
	if (!c || c->state != State::rep_sent) return false;
	stop_sending(*c);
	c->state = State::established;
	report(*c, Event::Kind::established);
	return true;
}

// Either end

bool ConnectionManager::reject(Nanoseconds now, CommId id, std::uint16_t reason, std::span<const std::byte> data) {
	Connection* c = find(id);
	if (!c) return false;
	switch (c->state) {
		case State::sidr_req_received: return answer(now, id, sidr_status::reject, {}, 0, data);
		case State::req_received: --pending_requests_; [[fallthrough]];
		case State::rep_sent:
		case State::rep_received:
			send_reject(*c, reason, data);
			stop_sending(*c);
			c->state = State::idle;
			return true;
		default: return false;
	}
}

bool ConnectionManager::disconnect(Nanoseconds now, CommId id) {
	Connection* c = find(id);
	if (!c) return false;
	switch (c->state) {
		case State::rep_sent:
		case State::rep_received:
		case State::established:
			c->state = State::dreq_sent;
			c->transaction = new_transaction(*c);
			send_with_retries(now, *c, Dreq{c->local, c->remote, c->other.qpn, {}}, patience);
			return true;
		case State::dreq_received:
			c->last = write_message({c->transaction, Drep{c->local, c->remote, {}}});
			outgoing_.push({c->route, c->last});
			enter_timewait(now, *c);
			return true;
		default: return false;
	}
}

void ConnectionManager::destroy(Nanoseconds now, CommId id) {
	Connection* c = find(id);
	if (!c) return;
	events_.erase_if([&](const Event& event) { return event.connection == id; });
	switch (c->state) {
		// IBA 12.9: reason `timeout` withdraws a REQ that the peer has not answered.
		case State::req_sent:
		case State::mra_req_received: send_reject(*c, reject_reason::timeout); return erase(*c);
		case State::req_received:
		case State::rep_sent:
		case State::rep_received: send_reject(*c, reject_reason::consumer); return erase(*c);
		case State::sidr_req_received: answer(now, id, sidr_status::reject, {}, 0, {}); break;
		case State::established:
			disconnect(now, id);
			// No program waits for the DREP, so a lost peer is given up early.
			c->give_up_at = now + longest_interval;
			break;
		case State::dreq_received: disconnect(now, id); break;
		case State::dreq_sent: c->give_up_at = std::min(c->give_up_at, now + longest_interval); break;
		case State::timewait: break;
		case State::sidr_answered:
			if (c->scheduled()) break;  // a repeated request must still get the answer
			return erase(*c);
		case State::idle:
		case State::awaits_service:
		case State::sidr_req_sent: return erase(*c);
	}
	c->destroyed_by_owner = true;
	c->user = nullptr;
}

}  // namespace verbena::cm
