// SPDX-License-Identifier: Apache-2.0
// UDP port 4791 in another user's hands (docs/decisions/0032).
//
// The kernel lets only processes of one user share the port. If those of another user have it and
// admit other users (VERBENA_PEERS=host), they pass on what arrives for this process's queue pairs,
// over same-host links, and this process sends from sockets of its own. It then has to believe that
// user about packets of the wire, and no other. It takes the port as soon as it is free.
//
// Threads: under the engine's lock.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "nic/link/udp_link.h"

namespace verbena::engine {

class PortRelay {
public:
	// To call after `family` could not be brought up. True if another user's processes have the
	// port, and will pass packets on as far as can be seen.
	bool begin(const link::UdpLink& udp, link::Family family, Nanoseconds now);
	bool active(link::Family family) const { return at(family).has_value(); }
	// True if this user, another one, may pass on packets of the family.
	bool admits(link::Family family, uid_t user);

	// Takes the port for each active family for which it is free. To call at retry_due().
	void retry(link::UdpLink& udp, Nanoseconds now);
	Nanoseconds retry_due() const { return retry_at_; }

	// Packets of users that do not have the port. All were dropped.
	std::uint64_t refused() const { return refused_; }

private:
	const std::optional<uid_t>& at(link::Family family) const { return users_[static_cast<std::size_t>(family)]; }
	std::optional<uid_t>& at(link::Family family) { return users_[static_cast<std::size_t>(family)]; }

	std::array<std::optional<uid_t>, 2> users_;  // that have the port, for each active family
	bool doubted_ = false;  // another user has passed on a packet since retry() last looked
	Nanoseconds retry_at_ = never;
	std::uint64_t refused_ = 0;
	bool accused_ = false;  // a log line names a user that passes on packets without the port
};

}  // namespace verbena::engine
