// SPDX-License-Identifier: Apache-2.0
// Kernel: ids are found, made and ended, and get their options.
#include "nic/ucma/kernel.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"

namespace verbena::ucma {

using State = Id::State;
using Unexpected = std::unexpected<int>;

std::expected<std::shared_ptr<Id>, int> Kernel::find(Channel& channel, std::uint32_t number) {
	const auto at = ids_.find(number);
	if (at == ids_.end()) return Unexpected(ENOENT);
	if (at->second->channel != &channel) return Unexpected(EINVAL);
	return at->second;
}

std::shared_ptr<Id> Kernel::make_id(
	Channel& channel, std::uint64_t uid, std::uint16_t port_space, std::uint8_t qp_type) {
	auto id = std::make_shared<Id>();
	do id->number = next_number_++;
	while (ids_.contains(id->number));
	id->uid = uid;
	id->channel = &channel;
	id->port_space = port_space;
	id->qp_type = qp_type;
	id->starting_psn = secure_random<std::uint32_t>() & 0xffffff;
	id->spare_events.resize(Id::spare_events_max);
	ids_[id->number] = id;
	return id;
}

Kernel::Result Kernel::create_id(Channel& channel, const rdma_ucm_create_id& c, std::size_t room) {
	std::uint8_t qp_type;
	switch (c.ps) {
		case RDMA_PS_TCP: qp_type = IBV_QPT_RC; break;
		case RDMA_PS_UDP:
		case RDMA_PS_IPOIB: qp_type = IBV_QPT_UD; break;
		case RDMA_PS_IB: qp_type = c.qp_type; break;
		default: return Unexpected(EINVAL);
	}
	const std::uint32_t number =
		locked([&](cm::ConnectionManager&, Nanoseconds) { return make_id(channel, c.uid, c.ps, qp_type)->number; });
	return respond(c.response, room, rdma_ucm_create_id_resp{number});
}

// Removes the id from every table, with its events, connection and children. The caller releases
// the service that the id owned, without the lock.
void Kernel::end(cm::ConnectionManager& connections, Nanoseconds now, Id& id) {
	const std::list<QueuedEvent> events =
		id.channel->take_if([&](const QueuedEvent& event) { return event.id.get() == &id; });
	for (const QueuedEvent& event : events)
		if (event.child) end(connections, now, *event.child);
	if (id.state == State::listening) connections.unlisten(id.service(), &id);
	if (id.connection.value) connections.destroy(now, id.connection);
	if (id.owns_port) {
		const auto [first, last] = ports_.equal_range(id.service());
		for (auto at = first; at != last; ++at)
			if (at->second == &id) {
				ports_.erase(at);
				break;
			}
		id.owns_port = false;
	}
	release_backlog_place(id);
	id.state = State::destroyed;
	std::erase_if(pending_lookups_, [&](const NeighbourLookup& sought) { return sought.id.get() == &id; });
	std::erase_if(memberships_, [&](const auto& entry) { return entry.second->id == id.number; });
	ids_.erase(id.number);
}

Kernel::Result Kernel::destroy_id(Channel& channel, const rdma_ucm_destroy_id& c, std::size_t room) {
	std::optional<cm::ServiceId> released;
	std::uint32_t reported = 0, qpn = 0;
	const Result found = locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if ((*id)->owns_port) released = (*id)->service();
		qpn = (*id)->own_qpn;
		end(connections, now, **id);
		reported = (*id)->events_reported;
		if (released && ports_.contains(*released)) released.reset();
		return {};
	});
	if (!found) return found;
	if (qpn) host_.id_ends(qpn);
	if (released) engine_->release_service(*released);
	return respond(c.response, room, rdma_ucm_destroy_id_resp{reported});
}

Kernel::Result Kernel::set_option(Channel& channel, const rdma_ucm_set_option& c) {
	const auto* value = reinterpret_cast<const void*>(c.optval);
	std::uint8_t byte = 0;
	int number = 0;
	if (c.level != RDMA_OPTION_ID || !value) return Unexpected(ENOSYS);
	switch (c.optname) {
		case RDMA_OPTION_ID_TOS:
		case RDMA_OPTION_ID_ACK_TIMEOUT:
			if (c.optlen != sizeof byte) return Unexpected(EINVAL);
			std::memcpy(&byte, value, sizeof byte);
			break;
		case RDMA_OPTION_ID_REUSEADDR:
		case RDMA_OPTION_ID_AFONLY:
			if (c.optlen != sizeof number) return Unexpected(EINVAL);
			std::memcpy(&number, value, sizeof number);
			break;
		default: return Unexpected(ENOSYS);
	}
	return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto found = find(channel, c.id);
		if (!found) return Unexpected(found.error());
		Id& id = **found;
		if (c.optname == RDMA_OPTION_ID_TOS) id.traffic_class = byte;
		else if (c.optname == RDMA_OPTION_ID_ACK_TIMEOUT) id.ack_timeout = byte & 0x1f;
		else if (id.state != State::idle) return Unexpected(EINVAL);
		else if (c.optname == RDMA_OPTION_ID_REUSEADDR) id.reuse_address = number != 0;
		return {};
	});
}

}  // namespace verbena::ucma
