// SPDX-License-Identifier: Apache-2.0
// The ConnectionManager's receiving half: one function for each kind of message, which acts by the
// state of the connection (IBA 12.9).
#include <algorithm>

#include "nic/cm/connection_manager.h"

namespace verbena::cm {

bool ConnectionManager::has_room_for_request() {
	if (pending_requests_ < pending_requests_max && has_block()) return true;
	++counters_.refused_busy;
	return false;
}

void ConnectionManager::handle_mad(
	Nanoseconds now, const Route& from, std::span<const std::byte, wire::mad_size> bytes) {
	++counters_.received;
	const auto envelope = read_message(bytes);
	if (!envelope) {
		++counters_.malformed;
		return;
	}
	// Without memory the message counts as lost, and the peer sends it again.
	reserve_output();
	std::visit([&](const auto& message) { handle(now, from, *envelope, message); }, envelope->message);
}

ConnectionManager::Origin ConnectionManager::origin_of(CommId id, std::uint64_t guid, const Route& from) {
	return {id.value, guid, from.link, gid_of(from.addresses.destination), gid_of(from.addresses.source)};
}

std::nullptr_t ConnectionManager::mismatch(Mismatch what) {
	++counters_.mismatched;
	if (report_mismatch) report_mismatch(what);
	return nullptr;
}

Connection* ConnectionManager::match(const Route& from, CommId own, CommId others) {
	const auto at = connections_.find(own.value);
	if (at == connections_.end()) {
		++counters_.unexpected;
		return nullptr;
	}
	Connection& c = *at->second;
	if (from.link != c.route.link) return mismatch(Mismatch::carrier);
	if (gid_of(from.addresses.destination) != gid_of(c.route.addresses.destination) ||
		gid_of(from.addresses.source) != gid_of(c.route.addresses.source))
		return mismatch(Mismatch::address);
	// The active end learns the peer's number from the REP. Until then the transaction id shows
	// that an answer is the peer's.
	const bool number_unknown = c.active && c.remote.value == 0;
	if (!number_unknown && c.remote != others) return mismatch(Mismatch::number);
	return &c;
}

Connection* ConnectionManager::find_withdrawn(const Route& from, const Rej& rej) {
	const auto withdrawn = by_origin_.find(origin_of(rej.local, rej.ca_guid, from));
	if (withdrawn != by_origin_.end()) return connections_.at(withdrawn->second.value).get();
	++counters_.unexpected;
	return nullptr;
}

bool ConnectionManager::is_answer(const Connection& c, const Envelope& envelope) {
	if (envelope.transaction == c.transaction) return true;
	mismatch(Mismatch::transaction);
	return false;
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const Req& req) {
	const Origin origin = origin_of(req.local, req.ca_guid, from);
	if (const auto known = by_origin_.find(origin); known != by_origin_.end()) {
		// A repeated REQ is never reported again. Its answer was lost, or the program has not
		// decided. After the end of the connection, a REQ with its old number is stale (IBA 12.9).
		Connection& c = *connections_.at(known->second.value);
		const bool waits = c.state == State::rep_sent || c.state == State::req_received;
		if (waits && !is_answer(c, envelope)) return;  // a repetition has the first one's id too
		if (c.state == State::rep_sent) send_again(c);
		else if (c.state == State::req_received)
			send(c, Mra{c.local, c.remote, refers_to_req, mra_service_timeout, {}});
		else if (c.state == State::timewait || c.state == State::idle)
			answer_stranger(from, envelope, Rej{{}, req.local, refers_to_req, reject_reason::stale_connection, 0, {}});
		return;
	}
	const Listener* listener = listeners_.find(req.service, req.addresses.destination);
	if (!listener)
		return answer_stranger(
			from, envelope, Rej{{}, req.local, refers_to_req, reject_reason::invalid_service, 0, {}});
	// The peer repeats its REQ, perhaps when there is room again.
	if (!has_room_for_request()) return;
	const auto at = by_origin_.try_emplace(origin).first;
	Connection& c = create_for(at, from);
	c.remote = req.local;
	c.remote_guid = req.ca_guid;
	c.service = req.service;
	c.transaction = c.request_transaction = envelope.transaction;
	c.transport = req.transport;
	c.path_mtu = req.path_mtu;
	c.ack_timeout = req.ack_timeout;
	c.other = {.qpn = req.qpn,
		.starting_psn = req.starting_psn,
		.responder_resources = req.responder_resources,
		.initiator_depth = req.initiator_depth,
		.retry_count = req.retry_count,
		.rnr_retry_count = req.rnr_retry_count,
		.flow_control = req.flow_control,
		.srq = req.srq,
		.q_key = req.q_key};
	c.route.addresses.traffic_class = req.traffic_class;
	c.route.addresses.flow_label = req.flow_label;
	c.state = State::req_received;
	++pending_requests_;
	at->second = c.local;
	events_.push({Event::Kind::request, c.local, nullptr, listener->user, 0, req});
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Mra& mra) {
	Connection* c = match(from, mra.remote, mra.local);
	if (!c) return;
	const bool expected =
		(mra.of == refers_to_req && (c->state == State::req_sent || c->state == State::mra_req_received)) ||
		(mra.of == refers_to_rep && c->state == State::rep_sent);
	if (!expected) {
		++counters_.unexpected;
		return;
	}
	if (!is_answer(*c, envelope)) return;
	// Repeat nothing before the time that the peer asks for has passed, then start waiting anew.
	if (c->state == State::req_sent) c->state = State::mra_req_received;
	const Nanoseconds until = now + duration_of(mra.service_timeout);
	c->give_up_at = std::max(c->give_up_at, until + patience);
	timers_.schedule(*c, until);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Rej& rej) {
	// The sender withdraws a REQ whose answer it never got, so it cannot name our number.
	const bool withdraws = rej.remote.value == 0 && rej.reason == reject_reason::timeout;
	Connection* c = withdraws ? find_withdrawn(from, rej) : match(from, rej.remote, rej.local);
	if (!c) return;
	switch (c->state) {
		case State::req_sent:
		case State::mra_req_received:
			// A peer that has made no connection for the REQ gives no number of its own; the
			// kernel's does that too.
			if (rej.local.value == 0 && rej.of != refers_to_req) {
				mismatch(Mismatch::number);
				return;
			}
			break;
		case State::rep_sent:
		case State::rep_received:
		case State::req_received: break;
		// The peer has given up before our RTU came. The kernel's cm_rej_handler() does the same.
		case State::established:
			if (c->active) break;
			[[fallthrough]];
		default: ++counters_.unexpected; return;
	}
	if (!is_answer(*c, envelope)) return;
	// The peer has withdrawn its REQ.
	if (c->state == State::req_received) return end(now, *c, Event::Kind::unreachable, -ETIMEDOUT);
	if (c->state == State::req_sent && rej.reason == reject_reason::invalid_service)
		return handle_missing_service(now, *c, envelope.message);
	end(now, *c, Event::Kind::rejected, rej.reason, envelope.message);
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const Rep& rep) {
	Connection* c = match(from, rep.remote, rep.local);
	if (!c) return;
	const bool waits = c->state == State::req_sent || c->state == State::mra_req_received;
	const bool has_rep = c->state == State::rep_received || (c->state == State::established && c->active);
	if (!waits && !has_rep) {
		++counters_.unexpected;
		return;
	}
	if (!is_answer(*c, envelope)) return;
	if (rep.local.value == 0) {
		mismatch(Mismatch::number);
		return;
	}
	switch (c->state) {
		case State::req_sent:
		case State::mra_req_received:
			stop_sending(*c);
			c->remote = rep.local;
			c->remote_guid = rep.ca_guid;
			c->other = {.qpn = rep.qpn,
				.starting_psn = rep.starting_psn,
				.responder_resources = rep.responder_resources,
				.initiator_depth = rep.initiator_depth,
				.retry_count = c->own.retry_count,
				.rnr_retry_count = rep.rnr_retry_count,
				.flow_control = rep.flow_control,
				.srq = rep.srq,
				.q_key = rep.q_key};
			c->state = State::rep_received;
			return report(*c, Event::Kind::response, 0, envelope.message);
		// A repeated REP: the program has not confirmed yet, so ask the peer for more time.
		case State::rep_received: return send(*c, Mra{c->local, c->remote, refers_to_rep, mra_service_timeout, {}});
		default: return send_again(*c);  // the RTU was lost
	}
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const Rtu& rtu) {
	Connection* c = match(from, rtu.remote, rtu.local);
	if (!c) return;
	if (c->state != State::rep_sent) {
		++counters_.unexpected;
		return;
	}
	if (!is_answer(*c, envelope)) return;
	stop_sending(*c);
	c->state = State::established;
	report(*c, Event::Kind::established);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Dreq& dreq) {
	Connection* c = match(from, dreq.remote, dreq.local);
	if (c && dreq.remote_qpn.value != c->own.qpn.value) c = mismatch(Mismatch::queue_pair);
	// This end does not have the sender's connection, so for the sender it is ended: confirm that.
	// A sender that guesses gets the same answer whatever it had wrong.
	if (!c) return answer_stranger(from, envelope, Drep{dreq.remote, dreq.local, {}});
	switch (c->state) {
		case State::rep_sent:
		case State::rep_received:
		case State::established:
			stop_sending(*c);
			c->transaction = envelope.transaction;
			c->state = State::dreq_received;
			return report(*c, Event::Kind::disconnected);
		case State::dreq_sent:  // both ends disconnect at the same time
			send(from, envelope.transaction, Drep{c->local, c->remote, {}});
			return end(now, *c, Event::Kind::disconnected, 0);
		case State::idle:
		case State::timewait: return send(from, envelope.transaction, Drep{c->local, c->remote, {}});
		default: ++counters_.unexpected;
	}
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Drep& drep) {
	Connection* c = match(from, drep.remote, drep.local);
	if (!c) return;
	if (c->state != State::dreq_sent) {
		++counters_.unexpected;
		return;
	}
	// A kernel that has given up its own DREQ answers ours with the transaction id of the REQ.
	if (envelope.transaction != c->request_transaction && !is_answer(*c, envelope)) return;
	end(now, *c, Event::Kind::disconnected, 0);
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const SidrReq& req) {
	const Origin origin = origin_of(req.request, 0, from);
	if (const auto known = by_origin_.find(origin); known != by_origin_.end()) {
		Connection& c = *connections_.at(known->second.value);
		if (c.state == State::sidr_answered && is_answer(c, envelope)) send_again(c);
		return;
	}
	const Listener* listener = listeners_.find(req.service, req.addresses.destination);
	if (!listener)
		return answer_stranger(from, envelope, SidrRep{req.request, sidr_status::unsupported, {}, req.service, 0, {}});
	if (!has_room_for_request()) return;
	const auto at = by_origin_.try_emplace(origin).first;
	Connection& c = create_for(at, from);
	c.remote = req.request;
	c.service = req.service;
	c.transaction = c.request_transaction = envelope.transaction;
	c.state = State::sidr_req_received;
	++pending_requests_;
	at->second = c.local;
	events_.push({Event::Kind::datagram_request, c.local, nullptr, listener->user, 0, req});
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const SidrRep& rep) {
	Connection* c = match(from, rep.request, {});
	if (!c) return;
	if (c->state != State::sidr_req_sent) {
		++counters_.unexpected;
		return;
	}
	if (!is_answer(*c, envelope)) return;
	if (rep.status == sidr_status::unsupported) return handle_missing_service(now, *c, envelope.message);
	c->other.qpn = rep.qpn;
	c->other.q_key = rep.q_key;
	end(now, *c, Event::Kind::datagram_response, rep.status, envelope.message);
}

}  // namespace verbena::cm
