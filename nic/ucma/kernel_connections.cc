// SPDX-License-Identifier: Apache-2.0
// Kernel: the commands for connections, and the connection manager's events.
#include "nic/ucma/kernel.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "nic/engine/explain.h"
#include "nic/ucma/attributes.h"
#include "nic/wire/gid_text.h"

namespace verbena::ucma {

using State = Id::State;
using Unexpected = std::unexpected<int>;

namespace {

constexpr std::uint32_t backlog_max = 1024;
// The time for which a request is repeated while its service has no listener (docs/decisions/0022).
constexpr Nanoseconds service_patience = 100'000'000;

wire::AddressPair pair_of(const Id& id) {
	wire::AddressPair pair{};
	std::memcpy(pair.source, id.place->gid.data(), 16);
	const wire::Gid to = id.destination_gid();
	std::memcpy(pair.destination, to.data(), 16);
	pair.traffic_class = id.traffic_class;
	pair.hop_limit = 64;
	// The formula of the kernel's rdma_cm; it gives all packets of a flow the same path.
	pair.flow_label = (std::uint32_t{id.source.port()} * 31 + id.destination.port()) & 0xfffff;
	return pair;
}

// ICMP messages that came so long before a failure explain it. A request that gets no answer is
// repeated every few seconds, and a refusal is final at once.
constexpr Nanoseconds icmp_age_max = 10'000'000'000, icmp_age_max_of_refusal = 1'000'000'000;

// No process has the service, or the one that has it is ending or just gives it up.
bool is_without_service(int error) { return error == ECONNREFUSED || error == ECONNRESET; }

// The bytes of private data in the message of a connection, or in that of a datagram id.
template <class Connection, class Datagram> std::size_t room_in(const Id& id) {
	return id.is_datagram() ? decltype(Datagram::data)::capacity : decltype(Connection::data)::capacity;
}

}  // namespace

Kernel::Result Kernel::listen(Channel& channel, const rdma_ucm_listen& c) {
	bool without_port = false;
	const auto found = locked([&](cm::ConnectionManager&, Nanoseconds) {
		auto one = find(channel, c.id);
		without_port = one && (*one)->state == State::idle;
		if (!without_port) return one;
		// A listener that was not bound gets the wildcard address and a free port.
		(*one)->source = Address::from(wire::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 0);
		(*one)->state = State::binding;
		return one;
	});
	if (!found) return Unexpected(found.error());
	Id& id = **found;
	if (without_port)
		if (auto taken = take_port(id, 0, std::nullopt); !taken) return taken;
	return locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		if (id.state != State::bound) return Unexpected(EINVAL);
		if (port_conflict(id, id.service(), true) != 0) return Unexpected(EADDRINUSE);
		if (!connections.listen(id.service(), id.listening_gid(), &id)) return Unexpected(EADDRINUSE);
		id.backlog_left = c.backlog == 0 || c.backlog > backlog_max ? backlog_max : c.backlog;
		id.state = State::listening;
		return {};
	});
}

// In three steps, because finding the outlet may block and so must not hold the engine's lock. The
// state `connecting` keeps other commands away; destroy_id may still end the id in between.
Kernel::Result Kernel::connect(Channel& channel, const rdma_ucm_connect& c) {
	if (!c.conn_param.valid) return Unexpected(EINVAL);
	auto found = locked([&](cm::ConnectionManager&, Nanoseconds) -> std::expected<std::shared_ptr<Id>, int> {
		auto id = find(channel, c.id);
		if (id && (*id)->state != State::route_resolved) return Unexpected(EINVAL);
		if (id && c.conn_param.private_data_len > room_in<cm::Req, cm::SidrReq>(**id)) return Unexpected(EINVAL);
		if (id) (*id)->state = State::connecting;
		return id;
	});
	if (!found) return Unexpected(found.error());
	const std::shared_ptr<Id>& id = *found;
	const wire::AddressPair pair = pair_of(*id);
	const bool on_this_host = id->destination.is_loopback() || host_.is_local(id->destination.gid());
	const auto outlet = engine_->service_outlet(pair, on_this_host, id->remote_service());
	// A process whose packets meet faults is reached as one of another host.
	const bool local = on_this_host && !(outlet && *outlet && !(*outlet)->lossless);
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		if (id->state != State::connecting) return {};
		if (!outlet && !is_without_service(outlet.error())) {
			report_no_outlet(id, outlet.error());
			return {};
		}
		cm::ConnectionManager::Request request{.service = id->remote_service(),
			.addresses = {id->source.gid(), id->destination.gid(), id->source.port()},
			.ca_guid = id->place->device.guid,
			.own = half_of(c.conn_param, id->starting_psn),
			.transport = id->qp_type == IBV_QPT_UC ? cm::Transport::uc : cm::Transport::rc,
			.path_mtu = engine::active_mtu_code(id->place->device.interface.mtu),
			.ack_timeout = id->ack_timeout,
			.data = std::as_bytes(std::span(c.conn_param.private_data, c.conn_param.private_data_len)),
			.service_patience = service_patience};
		id->connected_once = id->is_active = true;
		id->own_qpn = c.conn_param.qp_num & 0xffffff;
		id->peer_is_local = local;
		const cm::Route route = adapter::route_through(pair, outlet.value_or(nullptr));
		if (id->is_datagram()) id->connection = connections.resolve(now, route, request, id.get());
		else id->connection = connections.connect(now, route, request, id.get());
		return {};
	});
}

// The process that has the service is stalled, or its name is another user's.
void Kernel::report_no_outlet(const std::shared_ptr<Id>& id, int error) {
	id->state = State::disconnected;
	report(id, EventType::unreachable, -error);
}

// A host without a NIC refuses by ICMP, which the program sees as the answer that a host without a
// listener gives.
bool Kernel::explain_absence(const Id& id) {
	return id.is_active && !id.peer_is_local && engine_->explain_icmp(id.destination_gid(), icmp_age_max_of_refusal);
}

void Kernel::explain_rejection(const Id& id, std::uint16_t reason) {
	const bool no_service = reason == cm::reject_reason::invalid_service;
	if (!id.is_active || (no_service && explain_absence(id)) || !engine::somebody_reads()) return;
	engine::Sentence s;
	s.add(
		"rdma_connect to %s port %u was rejected: ", wire::text_of(id.destination.gid()).bytes, id.destination.port());
	if (no_service)
		s.add("no program %s listens at that port (reason 8); start the server first, or look at its address and port",
			id.peer_is_local ? "of this user on this host" : "there");
	else if (reason == cm::reject_reason::consumer)
		s.add(
			"the program there called rdma_reject(3), or has as many requests waiting as its rdma_listen(3) allows "
			"(reason 28)");
	else s.add("by reason %u of its REJ message", reason);
	engine::publish(s);
}

void Kernel::look_for_service(cm::ConnectionManager& connections, Nanoseconds now, const std::shared_ptr<Id>& id) {
	const cm::Connection* connection = connections.find(id->connection);
	if (!id->peer_is_local) {
		const cm::Route same = connection->route;
		connections.resume(now, id->connection, same);
		return;
	}
	engine_->forget_service(id->remote_service());
	if (!service_lookups_->request(engine::Place::service(id->remote_service().value), now))
		connections.refuse(now, id->connection);
}

void Kernel::resume_requests(cm::ConnectionManager& connections, Nanoseconds now, engine::Place service,
	std::expected<transport::Outlet*, int> outlet) {
	for (const auto& [number, id] : ids_) {
		if (!id->peer_is_local || id->remote_service().value != service.value) continue;
		const cm::Connection* connection = id->connection.value ? connections.find(id->connection) : nullptr;
		if (!connection || connection->state != cm::State::awaits_service || connection->scheduled()) continue;
		if (outlet) {
			connections.resume(now, id->connection, adapter::route_through(connection->route.addresses, *outlet));
		} else if (is_without_service(outlet.error())) {
			connections.refuse(now, id->connection);
		} else {
			connections.destroy(now, id->connection);
			report_no_outlet(id, outlet.error());
		}
	}
}

// Without valid parameters, this is the active end's confirmation of a REP; with them, the passive
// end's answer to a request.
Kernel::Result Kernel::accept(Channel& channel, const rdma_ucm_accept& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto found = find(channel, c.id);
		if (!found) return Unexpected(found.error());
		Id& id = **found;
		if (!c.conn_param.valid) {
			if (!connections.confirm(id.connection)) return Unexpected(EINVAL);
			id.state = State::connected;
			return {};
		}
		const auto data = std::as_bytes(std::span(c.conn_param.private_data, c.conn_param.private_data_len));
		if (data.size() > room_in<cm::Rep, cm::SidrRep>(id)) return Unexpected(EINVAL);
		if (id.is_datagram()) {
			id.q_key = c.conn_param.qkey ? c.conn_param.qkey : default_q_key;
			if (!connections.answer(
					now, id.connection, cm::sidr_status::success, {c.conn_param.qp_num & 0xffffff}, id.q_key, data))
				return Unexpected(EINVAL);
		} else if (!connections.reply(
					   now, id.connection, half_of(c.conn_param, id.starting_psn), id.place->device.guid, data)) {
			return Unexpected(EINVAL);
		}
		id.uid = c.uid;
		id.own_qpn = c.conn_param.qp_num & 0xffffff;
		release_backlog_place(id);
		id.connected_once = true;
		if (cm::Connection* connection = connections.find(id.connection)) connection->user = &id;
		return {};
	});
}

Kernel::Result Kernel::reject(Channel& channel, const rdma_ucm_reject& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		const std::uint16_t reason = c.reason ? c.reason : cm::reject_reason::consumer;
		const auto data = std::as_bytes(std::span(c.private_data, c.private_data_len));
		if (data.size() > room_in<cm::Rej, cm::SidrRep>(**id)) return Unexpected(EINVAL);
		if (!connections.reject(now, (*id)->connection, reason, data)) return Unexpected(EINVAL);
		return {};
	});
}

Kernel::Result Kernel::disconnect(Channel& channel, const rdma_ucm_disconnect& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if (!(*id)->connected_once || (*id)->is_datagram()) return Unexpected(EINVAL);
		connections.disconnect(now, (*id)->connection);  // a second call has no effect
		return {};
	});
}

Kernel::Result Kernel::notify(Channel& channel, const rdma_ucm_notify& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		// The program has received a message although the RTU has not arrived (rdma_notify(3)).
		if (c.event == IBV_EVENT_COMM_EST) connections.establish((*id)->connection);
		return {};
	});
}

Kernel::Result Kernel::init_qp_attr(Channel& channel, const rdma_ucm_init_qp_attr& c, std::size_t room) {
	ib_uverbs_qp_attr attributes{};
	const Result found = locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if (c.qp_state > IBV_QPS_ERR || !(*id)->place) return Unexpected(EINVAL);
		const cm::Connection* connection = (*id)->connection.value ? connections.find((*id)->connection) : nullptr;
		if (!fill_qp_attributes(attributes, **id, connection, host_.reads, c.qp_state)) return Unexpected(EINVAL);
		return {};
	});
	return found ? respond(c.response, room, attributes) : found;
}

void Kernel::release_backlog_place(Id& id) {
	if (const auto listener = id.listener.lock()) ++listener->backlog_left;
	id.listener.reset();
}

void Kernel::deliver_request(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	// The pointer is valid: an id stops listening before it is freed, and every event is delivered
	// before the engine's lock is released.
	auto* const listener = static_cast<Id*>(event.listener);
	const auto at = ids_.find(listener->number);
	if (at == ids_.end() || listener->backlog_left == 0) {
		// The backlog is full: the peer gets a REJ, as from the kernel.
		connections.reject(now, event.connection, cm::reject_reason::consumer, {});
		return connections.destroy(now, event.connection);
	}
	const auto& addresses = std::holds_alternative<cm::Req>(event.message)
		? std::get<cm::Req>(event.message).addresses
		: std::get<cm::SidrReq>(event.message).addresses;
	std::shared_ptr<Id> child;
	try {
		child = make_id(*listener->channel, listener->uid, listener->port_space, listener->qp_type);
		child->state = State::connecting;
		child->connection = event.connection;
		// librdmacm moves the queue pair to RTR before the program accepts, so its starting PSN is
		// needed now.
		connections.find(event.connection)->own.starting_psn = {child->starting_psn};
		child->source = Address::from(addresses.destination, listener->source.port());
		child->destination = Address::from(addresses.source, addresses.source_port);
		child->ack_timeout = listener->ack_timeout;
		child->listener = at->second;
		report(at->second, EventType::connect_request, 0, event_of(event.message), child);
		--listener->backlog_left;
	} catch (...) {
		// Without memory for the request, the peer gets a REJ.
		if (child) ids_.erase(child->number);
		connections.reject(now, event.connection, cm::reject_reason::consumer, {});
		connections.destroy(now, event.connection);
	}
}

void Kernel::deliver(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	using Kind = cm::Event::Kind;
	if (event.kind == Kind::request || event.kind == Kind::datagram_request)
		return deliver_request(connections, now, event);
	auto* const user = static_cast<Id*>(event.user);
	if (!user) return;
	const auto at = ids_.find(user->number);
	if (at == ids_.end()) return;
	const std::shared_ptr<Id>& id = at->second;
	switch (event.kind) {
		case Kind::response: return report(id, EventType::connect_response, 0, event_of(event.message));
		case Kind::established: id->state = State::connected; return report(id, EventType::established);
		case Kind::rejected: {
			const bool was_up = std::exchange(id->state, State::disconnected) == State::connected;
			// The service has moved to another process, or ended: do not trust the cached owner.
			if (event.status == cm::reject_reason::invalid_service) engine_->forget_service(id->remote_service());
			// A peer that ends before it knows that the connection is up rejects it.
			if (!was_up) explain_rejection(*id, static_cast<std::uint16_t>(event.status));
			return report(id, EventType::rejected, event.status, event_of(event.message));
		}
		case Kind::unreachable:
			id->state = State::disconnected;
			if (id->is_active && !id->peer_is_local) engine_->explain_no_answer(id->destination_gid(), icmp_age_max);
			return report(id, EventType::unreachable, event.status);
		case Kind::disconnected:
			id->state = State::disconnected;
			return report(id, EventType::disconnected, event.status);
		case Kind::timewait_exit: return report(id, EventType::timewait_exit);
		case Kind::service_lookup: return look_for_service(connections, now, id);
		case Kind::datagram_response: {
			if (event.status == cm::sidr_status::unsupported) explain_absence(*id);
			if (event.status != cm::sidr_status::success)
				return report(id, EventType::unreachable, event.status, event_of(event.message));
			id->state = State::connected;
			rdma_ucm_event_resp filled = event_of(event.message);
			id->q_key = filled.param.ud.qkey;
			filled.param.ud.ah_attr = path_to(*id, id->destination_gid());
			return report(id, EventType::established, 0, filled);
		}
		default: return;
	}
}

}  // namespace verbena::ucma
