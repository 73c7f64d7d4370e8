// SPDX-License-Identifier: Apache-2.0
// ConnectionManager: a request is sent to the process that has its service, and is repeated while
// no process has it (docs/decisions/0022).
#include <algorithm>
#include <vector>

#include "nic/cm/connection_manager.h"

namespace verbena::cm {

namespace {

// The answer of a CM without a listener for the service of `c`.
Message missing_service_answer(const Connection& c) {
	if (c.is_datagram) return SidrRep{c.local, sidr_status::unsupported, {}, c.service, 0, {}};
	return Rej{{}, c.local, refers_to_req, reject_reason::invalid_service, 0, {}};
}

}  // namespace

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

}  // namespace verbena::cm
