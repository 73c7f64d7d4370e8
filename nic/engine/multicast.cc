// SPDX-License-Identifier: Apache-2.0
// Engine: queue pairs join multicast groups and leave them.
#include <algorithm>
#include <cerrno>
#include <new>

#include "nic/engine/engine.h"

namespace verbena::engine {

using adapter::MulticastMember;
using transport::QueuePair;

std::expected<void, int> Engine::attach_multicast(
	QueuePair& qp, const wire::Gid& group, std::uint32_t interface_index) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		if (abandoned_) return std::unexpected(EIO);
		// ibv_attach_mcast(3): a queue pair that is attached several times gets a single copy.
		if (!adapter.attach_multicast({group, &qp, interface_index})) return {};
		int error = 0;
		try {
			error = remotes_.join(group, interface_index);
		} catch (const std::bad_alloc&) {
			error = ENOMEM;
		}
		if (error == 0) return {};
		adapter.detach_multicast(group, qp);
		return std::unexpected(error);
	});
}

std::expected<void, int> Engine::detach_multicast(QueuePair& qp, const wire::Gid& group) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		const auto& members = adapter.multicast_members();
		const auto found = std::ranges::find_if(
			members, [&](const MulticastMember& member) { return member.qp == &qp && member.group == group; });
		if (found == members.end()) return std::unexpected(EINVAL);
		// The device may have another interface by now.
		const std::uint32_t interface_index = found->interface_index;
		adapter.detach_multicast(group, qp);
		remotes_.leave(group, interface_index);
		return {};
	});
}

void Engine::leave_groups(const std::function<bool(const QueuePair&)>& ends) {
	control([&](adapter::ChannelAdapter& adapter) {
		const auto& members = adapter.multicast_members();
		for (;;) {
			const auto next =
				std::ranges::find_if(members, [&](const MulticastMember& member) { return ends(*member.qp); });
			if (next == members.end()) return;
			const MulticastMember leaving = *next;
			adapter.detach_multicast(leaving.group, *leaving.qp);
			remotes_.leave(leaving.group, leaving.interface_index);
		}
	});
}

}  // namespace verbena::engine
