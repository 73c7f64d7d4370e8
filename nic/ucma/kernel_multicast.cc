// SPDX-License-Identifier: Apache-2.0
// Kernel: the commands by which an id joins a multicast group and leaves it.
#include "nic/ucma/kernel.h"

#include <cerrno>
#include <utility>

#include "nic/ucma/attributes.h"

namespace verbena::ucma {

using Unexpected = std::unexpected<int>;

// Only reports the group's address. librdmacm attaches the queue pair to the group when the program
// fetches the event.
Kernel::Result Kernel::join(Channel& channel, std::uint32_t number, std::uint64_t uid, std::uint64_t response,
	const Address& group, std::size_t room) {
	std::uint32_t joined = 0;
	const Result result = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto found = find(channel, number);
		if (!found) return Unexpected(found.error());
		const std::shared_ptr<Id>& id = *found;
		if (!id->place || !id->is_datagram() || !group.is_multicast()) return Unexpected(EINVAL);
		auto membership = std::make_shared<Membership>();
		do membership->number = next_number_++;
		while (memberships_.contains(membership->number));
		membership->uid = uid;
		membership->id = id->number;
		memberships_[membership->number] = membership;
		joined = membership->number;
		QueuedEvent event{.id = id, .membership = std::move(membership)};
		event.content.event = static_cast<std::uint32_t>(EventType::multicast_join);
		rdma_ucm_ud_param& ud = event.content.param.ud;
		ud.qp_num = wire::multicast_qpn.value;
		ud.qkey = id->q_key ? id->q_key : default_q_key;
		ud.ah_attr = path_to(*id, group.gid());
		ud.ah_attr.grh.hop_limit = 1;
		channel.push(std::move(event), id->spare_events);
		return {};
	});
	return result ? respond(response, room, rdma_ucm_create_id_resp{joined}) : result;
}

Kernel::Result Kernel::leave(Channel& channel, const rdma_ucm_destroy_id& c, std::size_t room) {
	std::uint32_t reported = 0;
	const Result result = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = memberships_.find(c.id);
		if (at == memberships_.end()) return Unexpected(ENOENT);
		const std::shared_ptr<Membership> membership = at->second;
		memberships_.erase(at);
		channel.take_if([&](const QueuedEvent& event) { return event.membership == membership; });
		reported = membership->events_reported;
		return {};
	});
	return result ? respond(c.response, room, rdma_ucm_destroy_id_resp{reported}) : result;
}

}  // namespace verbena::ucma
