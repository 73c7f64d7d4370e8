// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <vector>

namespace verbena::cm {

namespace {

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
