// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/port_relay.h"

#include <bit>
#include <cerrno>
#include <unistd.h>

#include "base/udp_port_owner.h"
#include "nic/engine/listener_user.h"
#include "nic/engine/peers.h"
#include "nic/engine/unreachable.h"

namespace verbena::engine {

namespace {

// Nothing wakes a process when a port becomes free. In this time RC requests are repeated.
constexpr Nanoseconds retry_pause = 200'000'000;

std::optional<uid_t> holder(link::Family family) {
	const auto user =
		udp_port_owner(wire::roce_port, family == link::Family::ipv4 ? "/proc/net/udp" : "/proc/net/udp6");
	if (!user || *user == geteuid()) return std::nullopt;
	return user;
}

}  // namespace

bool PortRelay::begin(const link::UdpLink& udp, link::Family family, Nanoseconds now) {
	if (udp.error(family) != EADDRINUSE || !udp.sends(family) || allowed_peers() != Peers::host) return false;
	const auto user = holder(family);
	// Where the kernel does not list the names, the user is given the benefit of the doubt.
	if (!user || !listens_publicly(*user).value_or(true)) return false;
	if (!active(family)) explain_relay(*user);
	at(family) = user;
	retry_at_ = now + retry_pause;
	return true;
}

bool PortRelay::admits(link::Family family, uid_t user) {
	if (at(family) == user) return true;
	doubted_ = true;
	++refused_;
	// The user that has the port may pass packets on before begin() or retry() has seen that. A
	// flood must not cause many looks.
	if (!accused_ && std::has_single_bit(refused_) && holder(family) != user) {
		accused_ = true;
		explain_no_relay(user);
	}
	return false;
}

void PortRelay::retry(link::UdpLink& udp, Nanoseconds now) {
	if (now < retry_at_) return;
	retry_at_ = never;
	for (const auto family : {link::Family::ipv4, link::Family::ipv6}) {
		if (!active(family)) continue;
		if (udp.reopen(family)) {
			at(family).reset();
			continue;
		}
		// The port may have passed from one user to another in the meantime.
		if (doubted_)
			if (const auto user = holder(family)) at(family) = user;
		retry_at_ = now + retry_pause;
	}
	doubted_ = false;
}

}  // namespace verbena::engine
