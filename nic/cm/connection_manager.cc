// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

namespace verbena::cm {

namespace {

// The answer of a CM without a listener for the service of `c`.
Message missing_service_answer(const Connection& c) {
	if (c.is_datagram) return SidrRep{c.local, sidr_status::unsupported, {}, c.service, 0, {}};
	return Rej{{}, c.local, refers_to_req, reject_reason::invalid_service, 0, {}};
}

// A timeout that finds no memory for what it would send and report happens this much later.
constexpr Nanoseconds no_memory_pause = 10'000'000;

bool awaits_program(State state) { return state == State::req_received || state == State::sidr_req_received; }

}  // namespace

ConnectionManager::~ConnectionManager() {
	for (auto& [id, connection] : connections_) timers_.cancel(*connection);
}

// Connections

Connection& ConnectionManager::create(const Route& route, void* user) {
	std::uint32_t id;
	do id = block_ << comm_id_block_shift | static_cast<std::uint32_t>(random() >> (64 - comm_id_block_shift));
	while (connections_.contains(id));
	auto& made = connections_[id] = std::make_unique<Connection>();
	made->local = {id};
	made->route = route;
	made->user = user;
	return *made;
}

Connection& ConnectionManager::create_for(std::map<Origin, CommId>::iterator origin, const Route& route) {
	try {
		return create(route, nullptr);
	} catch (...) {
		by_origin_.erase(origin);
		throw;
	}
}

void ConnectionManager::erase(Connection& c) {
	stop_sending(c);
	if (awaits_program(c.state)) --pending_requests_;
	forget_origin(c);
	connections_.erase(c.local.value);
}

// A later connection may have the same origin: the peer can use its number again after timewait.
void ConnectionManager::forget_origin(const Connection& c) {
	const auto at = by_origin_.find(origin_of(c.remote, c.remote_guid, c.route));
	if (at != by_origin_.end() && at->second == c.local) by_origin_.erase(at);
}

Connection* ConnectionManager::find(CommId id) {
	const auto at = connections_.find(id.value);
	return at == connections_.end() || at->second->destroyed_by_owner ? nullptr : at->second.get();
}

// The high half makes it unique among this end's requests, the low half hard to guess.
std::uint64_t ConnectionManager::new_transaction(const Connection& c) {
	return std::uint64_t{c.local.value} << 32 | static_cast<std::uint32_t>(random());
}

void ConnectionManager::report(const Connection& c, Event::Kind kind, int status, Message message) {
	if (!c.destroyed_by_owner) events_.push({kind, c.local, c.user, nullptr, status, message});
}

std::optional<Event> ConnectionManager::poll_event() {
	if (events_.empty()) return std::nullopt;
	return events_.pop();
}

void ConnectionManager::reserve_output() {
	constexpr std::size_t most = 4;
	events_.reserve(most);
	outgoing_.reserve(most);
}

void ConnectionManager::stop_sending(Connection& c) { timers_.cancel(c); }

void ConnectionManager::send(const Route& route, std::uint64_t transaction, const Message& message) {
	++counters_.sent;
	outgoing_.push({route, write_message({transaction, message})});
}

void ConnectionManager::answer_stranger(const Route& from, const Envelope& envelope, const Message& answer) {
	if (outgoing_.size() < unsent_max) send(from, envelope.transaction, answer);
	else ++counters_.refused_busy;
}

void ConnectionManager::send_with_retries(Nanoseconds now, Connection& c, const Message& message, Nanoseconds limit) {
	c.last = write_message({c.transaction, message});
	send_last_with_retries(now, c, limit);
}

void ConnectionManager::send_last_with_retries(Nanoseconds now, Connection& c, Nanoseconds limit) {
	c.interval = first_interval;
	c.give_up_at = now + limit;
	++counters_.sent;
	outgoing_.push({c.route, c.last});
	timers_.schedule(c, now + c.interval);
}

void ConnectionManager::send_again(Connection& c) {
	++counters_.sent_again;
	outgoing_.push({c.route, c.last});
}

void ConnectionManager::send_reject(Connection& c, std::uint16_t reason, std::span<const std::byte> data) {
	const std::uint8_t of = c.state == State::rep_received ? refers_to_rep : c.active ? refers_to_other : refers_to_req;
	// A withdrawn REQ got no answer, so this end does not know the peer's number of the connection.
	// The peer finds the connection by its origin, which needs our CA GUID.
	send(c,
		Rej{c.local, c.remote, of, reason, reason == reject_reason::timeout ? c.own_guid : 0, PrivateData<148>(data)});
}

void ConnectionManager::enter_timewait(Nanoseconds now, Connection& c) {
	c.state = State::timewait;
	timers_.schedule(c, now + timewait);
}

void ConnectionManager::end(Nanoseconds now, Connection& c, Event::Kind kind, int status, Message message) {
	stop_sending(c);
	report(c, kind, status, message);
	if (awaits_program(c.state)) --pending_requests_;
	// Only a connection that was established has packets that may still arrive (IBA 12.9,
	// TimeWait).
	const bool was_up = kind == Event::Kind::disconnected;
	c.state = State::idle;
	if (was_up) enter_timewait(now, c);
	else if (c.destroyed_by_owner) erase(c);
}

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

void ConnectionManager::request_service(
	Nanoseconds now, Connection& c, const Message& request, Nanoseconds service_patience) {
	c.last = write_message({c.transaction, request});
	if (service_patience) c.service_deadline = now + service_patience;
	c.state = State::awaits_service;
	if (c.route.carrier) resume(now, c.local, c.route);
	else refuse(now, c.local);
}

bool ConnectionManager::resume(Nanoseconds now, CommId id, const Route& route) {
	Connection* c = find(id);
	if (!c || c->state != State::awaits_service) return false;
	c->route = route;
	c->state = c->is_datagram ? State::sidr_req_sent : State::req_sent;
	send_last_with_retries(now, *c, patience);
	return true;
}

bool ConnectionManager::refuse(Nanoseconds now, CommId id) {
	Connection* c = find(id);
	if (!c || c->state != State::awaits_service) return false;
	handle_missing_service(now, *c, missing_service_answer(*c));
	return true;
}

void ConnectionManager::handle_missing_service(Nanoseconds now, Connection& c, const Message& answer) {
	++c.service_refusals;
	const bool over = now >= c.service_deadline && c.service_refusals >= service_refusals_min;
	if (over || !c.service_deadline) {
		if (c.is_datagram) return end(now, c, Event::Kind::datagram_response, sidr_status::unsupported, answer);
		return end(now, c, Event::Kind::rejected, reject_reason::invalid_service, answer);
	}
	c.state = State::awaits_service;
	const unsigned doublings = std::min(c.service_refusals - 1, 10u);
	timers_.schedule(c, now + std::min(service_first_interval << doublings, service_longest_interval));
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

// Time

void ConnectionManager::handle_timeouts(Nanoseconds now) {
	timers_.advance(now, [&](TimerEntry& entry) {
		auto& c = static_cast<Connection&>(entry);
		try {
			reserve_output();
		} catch (const std::bad_alloc&) {
			timers_.schedule(c, now + no_memory_pause);
			return;
		}
		handle_timeout(now, c);
	});
}

void ConnectionManager::handle_timeout(Nanoseconds now, Connection& c) {
	switch (c.state) {
		case State::timewait:
			report(c, Event::Kind::timewait_exit);
			c.state = State::idle;
			if (c.destroyed_by_owner) erase(c);
			else forget_origin(c);
			return;
		case State::sidr_answered:
			if (c.destroyed_by_owner) erase(c);
			return;
		case State::awaits_service: return report(c, Event::Kind::service_lookup);
		// The time that the peer asked for has passed: send the REQ again.
		case State::mra_req_received: c.state = State::req_sent; [[fallthrough]];
		case State::req_sent:
		case State::rep_sent:
		case State::dreq_sent:
		case State::sidr_req_sent: break;
		default: return;
	}
	if (now < c.give_up_at) {
		send_again(c);
		c.interval = std::min(2 * c.interval, longest_interval);
		timers_.schedule(c, std::min(now + c.interval, c.give_up_at));
		return;
	}
	// IBA 12.9: a DREQ without answer ends the connection all the same.
	if (c.state == State::dreq_sent) return end(now, c, Event::Kind::disconnected, -ETIMEDOUT);
	if (c.state != State::sidr_req_sent) send_reject(c, reject_reason::timeout);
	end(now, c, Event::Kind::unreachable, -ETIMEDOUT);
}

void ConnectionManager::handle_refusal(Nanoseconds now, const wire::Gid& host, std::uint64_t transaction) {
	// Collect first: end() may erase from `connections_`.
	std::vector<CommId> waiting;
	bool known = false;  // a forged report would have to guess a transaction id
	for (const auto& [id, c] : connections_) {
		if (c->state != State::req_sent && c->state != State::sidr_req_sent && c->state != State::dreq_sent) continue;
		if (c->route.link != 0 || gid_of(c->route.addresses.destination) != host) continue;
		waiting.push_back({id});
		known |= c->transaction == transaction;
	}
	if (!known) {
		++counters_.unexpected;
		return;
	}
	for (const CommId id : waiting) {
		reserve_output();
		Connection& c = *connections_.at(id.value);
		switch (c.state) {
			case State::req_sent:
			case State::sidr_req_sent: handle_missing_service(now, c, missing_service_answer(c)); break;
			default: end(now, c, Event::Kind::disconnected, 0);
		}
	}
}

// With the kernel's rdma_cm, the kernel sends messages for a process that dies. A process that runs
// this CM itself cannot, so each peer on the host reports the events that those would have caused.
void ConnectionManager::fail_carrier(Nanoseconds now, void* carrier) {
	outgoing_.erase_if([&](const Outgoing& out) { return out.route.carrier == carrier; });
	std::vector<CommId> concerned;
	for (const auto& [id, c] : connections_)
		if (c->route.carrier == carrier) concerned.push_back({id});
	for (const CommId id : concerned) {
		reserve_output();  // if this throws, the rest still have the carrier, for another call
		Connection& c = *connections_.at(id.value);
		c.route.carrier = nullptr;  // the adapter discards messages without a carrier
		switch (c.state) {
			case State::req_sent:
			case State::mra_req_received:
			case State::rep_sent:
			case State::rep_received:
				end(now, c, Event::Kind::rejected, reject_reason::consumer,
					Rej{c.remote, c.local, refers_to_other, reject_reason::consumer, 0, {}});
				break;
			case State::req_received: end(now, c, Event::Kind::unreachable, -ETIMEDOUT); break;
			case State::established:
			case State::dreq_sent: end(now, c, Event::Kind::disconnected, 0); break;
			case State::sidr_req_sent: end(now, c, Event::Kind::unreachable, -ETIMEDOUT); break;
			default: break;
		}
	}
}

}  // namespace verbena::cm
