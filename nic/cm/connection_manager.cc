#include "nic/cm/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace verbena::cm {

namespace {

constexpr std::uint8_t of_req = 0, of_rep = 1, of_other = 2;

constexpr wire::Gid any_address{};

wire::Gid gid_of(const std::uint8_t (&bytes)[16]) {
	wire::Gid gid;
	std::memcpy(gid.data(), bytes, gid.size());
	return gid;
}

bool same_host(const Route& a, const Route& b) { return std::memcmp(a.addresses.destination, b.addresses.destination, 16) == 0; }

// 12.7: a timeout field counts in powers of two of 4.096 us.
constexpr Nanoseconds duration_of(std::uint8_t code) { return Nanoseconds{4096} << code; }

bool waits_for_program(State state) { return state == State::req_received || state == State::sidr_req_received; }

}  // namespace

ConnectionManager::~ConnectionManager() {
	for (auto& [id, connection] : connections_) timers_.cancel(*connection);
}

// Services

bool ConnectionManager::listen(ServiceId service, const wire::Gid& address, void* user) {
	const auto [first, last] = listeners_.equal_range(service);
	if (std::any_of(first, last, [&](const auto& entry) { return entry.second.address == address; })) return false;
	listeners_.insert({service, Listener{address, user}});
	return true;
}

void ConnectionManager::unlisten(ServiceId service, void* user) {
	const auto [first, last] = listeners_.equal_range(service);
	const auto at = std::find_if(first, last, [&](const auto& entry) { return entry.second.user == user; });
	if (at != last) listeners_.erase(at);
}

bool ConnectionManager::listens(ServiceId service) const { return listeners_.contains(service); }

// The one for this very address, or the one for any of the family, or the one for any.
const ConnectionManager::Listener* ConnectionManager::find_listener(ServiceId service, const wire::Gid& address) const {
	const auto [first, last] = listeners_.equal_range(service);
	const Listener* found = nullptr;
	for (auto at = first; at != last; ++at) {
		const Listener& listener = at->second;
		if (listener.address == address) return &listener;
		const bool any_ipv4 = wire::is_ipv4_mapped(listener.address) &&
			std::all_of(listener.address.begin() + 12, listener.address.end(), [](auto b) { return b == 0; });
		const bool for_family = any_ipv4 && wire::is_ipv4_mapped(address);
		if (for_family || (listener.address == any_address && !found)) found = &listener;
	}
	return found;
}

// Connections

Connection& ConnectionManager::create(const Route& route, void* user) {
	std::uint32_t id;
	do id = block_ << comm_id_block_shift | static_cast<std::uint32_t>(random_.below(1u << comm_id_block_shift));
	while (connections_.contains(id));
	auto& made = connections_[id] = std::make_unique<Connection>();
	made->local = {id};
	made->route = route;
	made->user = user;
	return *made;
}

void ConnectionManager::erase(Connection& c) {
	stop_sending(c);
	if (waits_for_program(c.state)) --pending_requests_;
	if (!c.active) by_origin_.erase({c.remote.value, c.remote_guid, gid_of(c.route.addresses.destination)});
	connections_.erase(c.local.value);
}

Connection* ConnectionManager::find(CommId id) {
	const auto at = connections_.find(id.value);
	return at == connections_.end() || at->second->doomed ? nullptr : at->second.get();
}

// The connection that a message is about, if it comes from where the connection leads.
Connection* ConnectionManager::find(CommId own, CommId others, const Route& from) {
	const auto at = connections_.find(own.value);
	if (at == connections_.end() || !same_host(at->second->route, from)) return nullptr;
	Connection& c = *at->second;
	if (c.remote.value != 0 && others.value != 0 && c.remote != others) return nullptr;
	return &c;
}

void ConnectionManager::report(const Connection& c, Event::Kind kind, int status, Message message) {
	if (!c.doomed) events_.push_back({kind, c.local, c.user, nullptr, status, message});
}

std::optional<Event> ConnectionManager::poll_event() {
	if (events_.empty()) return std::nullopt;
	Event event = events_.front();
	events_.pop_front();
	return event;
}

void ConnectionManager::stop_sending(Connection& c) { timers_.cancel(c); }

void ConnectionManager::send(const Route& route, std::uint64_t transaction, const Message& message) {
	++counters_.sent;
	outgoing_.push_back({route, write_message({transaction, message})});
}

void ConnectionManager::send_until_answered(Nanoseconds now, Connection& c, const Message& message, Nanoseconds limit) {
	c.last = write_message({c.transaction, message});
	c.interval = first_interval;
	c.give_up_at = now + limit;
	++counters_.sent;
	outgoing_.push_back({c.route, c.last});
	timers_.schedule(c, now + c.interval);
}

void ConnectionManager::send_again(Connection& c) {
	++counters_.sent_again;
	outgoing_.push_back({c.route, c.last});
}

void ConnectionManager::send_reject(Connection& c, std::uint16_t reason, std::span<const std::byte> data) {
	const std::uint8_t of = c.state == State::rep_received ? of_rep : c.active ? of_other : of_req;
	// A request that is withdrawn has no number at the other end yet that this one would know: it is found by its origin.
	send(c, Rej{c.local, c.remote, of, reason, reason == reject_reason::timeout ? c.own_guid : 0, PrivateData<148>(data)});
}

void ConnectionManager::enter_timewait(Nanoseconds now, Connection& c) {
	c.state = State::timewait;
	timers_.schedule(c, now + timewait);
}

// It comes to nothing, or to its end.
void ConnectionManager::end(Nanoseconds now, Connection& c, Event::Kind kind, int status, Message message) {
	stop_sending(c);
	report(c, kind, status, message);
	if (waits_for_program(c.state)) --pending_requests_;
	const bool was_up = kind == Event::Kind::disconnected;
	c.state = State::idle;
	if (was_up) enter_timewait(now, c);
	else if (c.doomed) erase(c);
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
	c.transaction = std::uint64_t{c.local.value} << 32 | static_cast<std::uint32_t>(random_());
	c.state = State::req_sent;
	Req req{.local = c.local,
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
	send_until_answered(now, c, req, patience);
	return c.local;
}

CommId ConnectionManager::resolve(Nanoseconds now, const Route& route, const Request& request, void* user) {
	Connection& c = create(route, user);
	c.active = true;
	c.service = request.service;
	c.transaction = std::uint64_t{c.local.value} << 32 | static_cast<std::uint32_t>(random_());
	c.state = State::sidr_req_sent;
	const SidrReq req{
		.request = c.local, .service = request.service, .addresses = request.addresses, .data = PrivateData<180>(request.data)};
	send_until_answered(now, c, req, patience);
	return c.local;
}

bool ConnectionManager::confirm(CommId id) {
	Connection* c = find(id);
	if (!c || c->state != State::rep_received) return false;
	c->state = State::established;
	const Rtu rtu{c->local, c->remote, {}};
	c->last = write_message({c->transaction, rtu});
	send(*c, rtu);
	return true;
}

// The passive end

bool ConnectionManager::reply(Nanoseconds now, CommId id, const Half& own, std::uint64_t ca_guid, std::span<const std::byte> data) {
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
	send_until_answered(now, *c, rep, patience);
	return true;
}

bool ConnectionManager::answer(
	Nanoseconds now, CommId id, std::uint8_t status, wire::Qpn qpn, std::uint32_t q_key, std::span<const std::byte> data) {
	Connection* c = find(id);
	if (!c || c->state != State::sidr_req_received) return false;
	--pending_requests_;
	c->state = State::sidr_answered;
	const SidrRep rep{c->remote, status, qpn, c->service, q_key, PrivateData<136>(data)};
	c->last = write_message({c->transaction, rep});
	send(*c, rep);
	timers_.schedule(*c, now + patience);  // until then the answer is given again to who asks again
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
			c->transaction = std::uint64_t{c->local.value} << 32 | static_cast<std::uint32_t>(random_());
			send_until_answered(now, *c, Dreq{c->local, c->remote, c->other.qpn, {}}, patience);
			return true;
		case State::dreq_received:
			c->last = write_message({c->transaction, Drep{c->local, c->remote, {}}});
			outgoing_.push_back({c->route, c->last});
			enter_timewait(now, *c);
			return true;
		default: return false;
	}
}

void ConnectionManager::destroy(Nanoseconds now, CommId id) {
	Connection* c = find(id);
	if (!c) return;
	std::erase_if(events_, [&](const Event& event) { return event.connection == id; });
	switch (c->state) {
		case State::req_sent:
		case State::mra_req_received: send_reject(*c, reject_reason::timeout); return erase(*c);
		case State::req_received:
		case State::rep_sent:
		case State::rep_received: send_reject(*c, reject_reason::consumer); return erase(*c);
		case State::sidr_req_received: answer(now, id, sidr_status::reject, {}, 0, {}); break;
		case State::established:
			disconnect(now, id);
			c->give_up_at = now + longest_interval;
			break;
		case State::dreq_received: disconnect(now, id); break;
		case State::dreq_sent: c->give_up_at = std::min(c->give_up_at, now + longest_interval); break;
		case State::timewait: break;
		case State::sidr_answered:
			if (c->scheduled()) break;  // the answer may have to be given again
			return erase(*c);
		case State::idle:
		case State::sidr_req_sent: return erase(*c);
	}
	c->doomed = true;
	c->user = nullptr;
}

// What comes in

bool ConnectionManager::may_take_request() {
	if (pending_requests_ < pending_requests_max && has_block()) return true;
	++counters_.refused_busy;
	return false;
}

void ConnectionManager::handle_mad(Nanoseconds now, const Route& from, std::span<const std::byte, wire::mad_size> bytes) {
	++counters_.received;
	const auto envelope = read_message(bytes);
	if (!envelope) {
		++counters_.malformed;
		return;
	}
	std::visit([&](const auto& message) { handle(now, from, *envelope, message); }, envelope->message);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Req& req) {
	const Origin origin{req.local.value, req.ca_guid, gid_of(from.addresses.destination)};
	if (const auto known = by_origin_.find(origin); known != by_origin_.end()) {
		Connection& c = *connections_.at(known->second.value);
		if (c.state == State::rep_sent) send_again(c);
		else if (c.state == State::req_received) send(c, Mra{c.local, c.remote, of_req, program_timeout, {}});
		else if (c.state == State::timewait || c.state == State::idle)
			send(from, envelope.transaction, Rej{{}, req.local, of_req, reject_reason::stale_connection, 0, {}});
		return;
	}
	const Listener* listener = find_listener(req.service, req.addresses.destination);
	if (!listener) return send(from, envelope.transaction, Rej{{}, req.local, of_req, reject_reason::invalid_service, 0, {}});
	if (!may_take_request()) return;  // it will be asked again
	Connection& c = create(from, nullptr);
	c.remote = req.local;
	c.remote_guid = req.ca_guid;
	c.service = req.service;
	c.transaction = envelope.transaction;
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
	by_origin_[origin] = c.local;
	events_.push_back({Event::Kind::request, c.local, nullptr, listener->user, 0, req});
	static_cast<void>(now);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope&, const Mra& mra) {
	Connection* c = find(mra.remote, mra.local, from);
	const bool expected = c &&
		((mra.of == of_req && (c->state == State::req_sent || c->state == State::mra_req_received)) ||
			(mra.of == of_rep && c->state == State::rep_sent));
	if (!expected) {
		++counters_.unexpected;
		return;
	}
	if (c->state == State::req_sent) c->state = State::mra_req_received;
	const Nanoseconds until = now + duration_of(mra.service_timeout);
	c->give_up_at = std::max(c->give_up_at, until + patience);
	timers_.schedule(*c, until);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Rej& rej) {
	Connection* c = find(rej.remote, rej.local, from);
	if (!c && rej.reason == reject_reason::timeout) {
		const auto withdrawn = by_origin_.find({rej.local.value, rej.ca_guid, gid_of(from.addresses.destination)});
		if (withdrawn != by_origin_.end()) c = connections_.at(withdrawn->second.value).get();
	}
	if (!c) {
		++counters_.unexpected;
		return;
	}
	switch (c->state) {
		case State::req_sent:
		case State::mra_req_received:
		case State::rep_sent:
		case State::rep_received: return end(now, *c, Event::Kind::rejected, rej.reason, envelope.message);
		case State::req_received: return end(now, *c, Event::Kind::unreachable, -ETIMEDOUT);  // the other end has given up
		default: ++counters_.unexpected;
	}
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const Rep& rep) {
	Connection* c = find(rep.remote, rep.local, from);
	if (!c || !c->active) {
		++counters_.unexpected;
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
		case State::rep_received: return send(*c, Mra{c->local, c->remote, of_rep, program_timeout, {}});
		case State::established: return send_again(*c);  // the RTU was lost
		default: ++counters_.unexpected;
	}
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope&, const Rtu& rtu) {
	Connection* c = find(rtu.remote, rtu.local, from);
	if (!c || c->state != State::rep_sent) {
		++counters_.unexpected;
		return;
	}
	stop_sending(*c);
	c->state = State::established;
	report(*c, Event::Kind::established);
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const Dreq& dreq) {
	Connection* c = find(dreq.remote, dreq.local, from);
	// Whoever asks for the end of what is not there any more gets what he wants.
	if (!c) return send(from, envelope.transaction, Drep{dreq.remote, dreq.local, {}});
	switch (c->state) {
		case State::rep_sent:
		case State::rep_received:
		case State::established:
			stop_sending(*c);
			c->transaction = envelope.transaction;
			c->state = State::dreq_received;
			return report(*c, Event::Kind::disconnected);
		case State::dreq_sent:  // both at once
			send(from, envelope.transaction, Drep{c->local, c->remote, {}});
			return end(now, *c, Event::Kind::disconnected, 0);
		case State::idle:
		case State::timewait: return send(from, envelope.transaction, Drep{c->local, c->remote, {}});
		default: ++counters_.unexpected;
	}
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope&, const Drep& drep) {
	Connection* c = find(drep.remote, drep.local, from);
	if (!c || c->state != State::dreq_sent) {
		++counters_.unexpected;
		return;
	}
	end(now, *c, Event::Kind::disconnected, 0);
}

void ConnectionManager::handle(Nanoseconds, const Route& from, const Envelope& envelope, const SidrReq& req) {
	const Origin origin{req.request.value, 0, gid_of(from.addresses.destination)};
	if (const auto known = by_origin_.find(origin); known != by_origin_.end()) {
		Connection& c = *connections_.at(known->second.value);
		if (c.state == State::sidr_answered) send_again(c);
		return;
	}
	const Listener* listener = find_listener(req.service, req.addresses.destination);
	if (!listener) return send(from, envelope.transaction, SidrRep{req.request, sidr_status::unsupported, {}, req.service, 0, {}});
	if (!may_take_request()) return;
	Connection& c = create(from, nullptr);
	c.remote = req.request;
	c.service = req.service;
	c.transaction = envelope.transaction;
	c.state = State::sidr_req_received;
	++pending_requests_;
	by_origin_[origin] = c.local;
	events_.push_back({Event::Kind::datagram_request, c.local, nullptr, listener->user, 0, req});
}

void ConnectionManager::handle(Nanoseconds now, const Route& from, const Envelope& envelope, const SidrRep& rep) {
	Connection* c = find(rep.request, {}, from);
	if (!c || c->state != State::sidr_req_sent) {
		++counters_.unexpected;
		return;
	}
	c->other.qpn = rep.qpn;
	c->other.q_key = rep.q_key;
	end(now, *c, Event::Kind::datagram_response, rep.status, envelope.message);
}

// Time

void ConnectionManager::handle_timeouts(Nanoseconds now) {
	timers_.advance(now, [&](TimerEntry& entry) { handle_timeout(now, static_cast<Connection&>(entry)); });
}

void ConnectionManager::handle_timeout(Nanoseconds now, Connection& c) {
	switch (c.state) {
		case State::timewait:
			report(c, Event::Kind::timewait_exit);
			c.state = State::idle;
			if (c.doomed) erase(c);
			else by_origin_.erase({c.remote.value, c.remote_guid, gid_of(c.route.addresses.destination)});
			return;
		case State::sidr_answered:
			if (c.doomed) erase(c);
			return;
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
	if (c.state == State::dreq_sent) return end(now, c, Event::Kind::disconnected, -ETIMEDOUT);
	if (c.state != State::sidr_req_sent) send_reject(c, reject_reason::timeout);
	end(now, c, Event::Kind::unreachable, -ETIMEDOUT);
}

void ConnectionManager::handle_refusal(Nanoseconds now, const wire::Gid& host, std::uint64_t transaction) {
	std::vector<CommId> waiting;
	bool known = false;
	for (const auto& [id, c] : connections_) {
		if (c->state != State::req_sent && c->state != State::sidr_req_sent && c->state != State::dreq_sent) continue;
		if (gid_of(c->route.addresses.destination) != host) continue;
		waiting.push_back({id});
		known |= c->transaction == transaction;
	}
	if (!known) {
		++counters_.unexpected;
		return;
	}
	for (const CommId id : waiting) {
		Connection& c = *connections_.at(id.value);
		switch (c.state) {
			case State::req_sent:
				end(now, c, Event::Kind::rejected, reject_reason::invalid_service,
					Rej{{}, c.local, of_req, reject_reason::invalid_service, 0, {}});
				break;
			case State::sidr_req_sent:
				end(now, c, Event::Kind::datagram_response, sidr_status::unsupported,
					SidrRep{c.local, sidr_status::unsupported, {}, c.service, 0, {}});
				break;
			default: end(now, c, Event::Kind::disconnected, 0);
		}
	}
}

// A kernel tells the peers of a process that ends; a process that is its own kernel cannot, so they tell themselves.
void ConnectionManager::fail_carrier(Nanoseconds now, void* carrier) {
	std::erase_if(outgoing_, [&](const Outgoing& out) { return out.route.carrier == carrier; });
	std::vector<CommId> concerned;
	for (const auto& [id, c] : connections_)
		if (c->route.carrier == carrier) concerned.push_back({id});
	for (const CommId id : concerned) {
		Connection& c = *connections_.at(id.value);
		c.route.carrier = nullptr;
		switch (c.state) {
			case State::req_sent:
			case State::mra_req_received:
			case State::rep_sent:
			case State::rep_received:
				end(now, c, Event::Kind::rejected, reject_reason::consumer,
					Rej{c.remote, c.local, of_other, reject_reason::consumer, 0, {}});
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
