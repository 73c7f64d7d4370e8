// SPDX-License-Identifier: Apache-2.0
// The services that this process listens for, by service and address.
//
// Threads: one at a time; part of ConnectionManager.
// Invariants: a service has at most one listener for each address.
#pragma once

#include <algorithm>
#include <map>

#include "nic/cm/message.h"

namespace verbena::cm {

struct Listener {
	wire::Gid address;  // all zero: any; ::ffff:0.0.0.0: any IPv4 address
	void* user = nullptr;  // the owner, an opaque pointer
};

class Listeners {
public:
	// Returns false if the service has a listener at this address.
	bool add(ServiceId service, const wire::Gid& address, void* user) {
		const auto [first, last] = by_service_.equal_range(service);
		if (std::any_of(first, last, [&](const auto& entry) { return entry.second.address == address; })) return false;
		by_service_.insert({service, Listener{address, user}});
		return true;
	}

	void remove(ServiceId service, void* user) {
		const auto [first, last] = by_service_.equal_range(service);
		const auto at = std::find_if(first, last, [&](const auto& entry) { return entry.second.user == user; });
		if (at != last) by_service_.erase(at);
	}

	bool has(ServiceId service) const { return by_service_.contains(service); }

	// The most specific listener: for exactly this address, else for any address of its family,
	// else for any address. Null if there is none. The pointer is valid until the next add() or
	// remove().
	const Listener* find(ServiceId service, const wire::Gid& address) const {
		const auto [first, last] = by_service_.equal_range(service);
		const Listener* found = nullptr;
		for (auto at = first; at != last; ++at) {
			const Listener& listener = at->second;
			if (listener.address == address) return &listener;
			const bool any_ipv4 = wire::is_ipv4_mapped(listener.address) &&
				std::all_of(listener.address.begin() + 12, listener.address.end(), [](auto byte) { return byte == 0; });
			const bool for_family = any_ipv4 && wire::is_ipv4_mapped(address);
			if (for_family || (listener.address == wire::Gid{} && !found)) found = &listener;
		}
		return found;
	}

private:
	std::multimap<ServiceId, Listener> by_service_;
};

}  // namespace verbena::cm
