// SPDX-License-Identifier: Apache-2.0
// This host's memberships in multicast groups, for a socket that receives datagrams to them. The
// kernel limits the memberships of one socket (net.ipv4.igmp_max_memberships: 20; for IPv6
// net.core.optmem_max), so sockets that are not bound hold the further ones. The receiver gets the
// datagrams to all groups of which the host is a member (IP_MULTICAST_ALL, which is on by default).
//
// Threads: one at a time.
// Owns: the sockets beside the receiver. Each is closed with the last membership that it holds.
// Errors: errno values of socket calls, for example EMFILE.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "nic/wire/flow.h"

namespace verbena::link {

class Memberships {
public:
	// Both return 0 or an errno value. `receiver` is a bound socket of the group's family. Each
	// join() of a group and interface is followed by its leave() before it is joined again.
	int join(int receiver, const wire::Gid& group, std::uint32_t interface_index);
	int leave(int receiver, const wire::Gid& group, std::uint32_t interface_index);

private:
	using Membership = std::pair<wire::Gid, std::uint32_t>;  // the group, and the interface
	struct Holder {
		Descriptor socket;
		bool is_ipv4 = false;
		bool full = false;  // the kernel has refused a membership, and none has ended since
		std::vector<Membership> held;
	};

	std::vector<Holder> holders_;
};

}  // namespace verbena::link
