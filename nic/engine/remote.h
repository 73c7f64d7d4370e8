// The path to one address of another host: an outlet over UDP.
//
// Threads: under the engine's lock.
// Owns: the private ring that the path drains into UDP packets; not the socket.
// Lifetime: neither copied nor moved, because the outlet points here.
#pragma once

#include <algorithm>
#include <cstring>

#include "nic/engine/interfaces.h"
#include "nic/link/udp_path.h"
#include "nic/transport/outlet.h"

namespace verbena::engine {

class Remote {
public:
	// `peer`: the same for all paths between the same two addresses.
	Remote(link::UdpLink& udp, const wire::AddressPair& addresses, std::uint64_t peer)
		: addresses_(addresses), path_(udp, options_for(addresses)) {
		outlet.slots.attach(path_.direction());
		outlet.lossless = false;
		outlet.peer = peer;
		outlet.user = this;
	}

	transport::Outlet outlet;

	// Sends what was written to the outlet. False: the socket has no room for all of it; call
	// again later.
	bool transmit() { return !(blocked_ = !path_.transmit()); }
	bool blocked() const { return blocked_; }

	// The path has these addresses and this traffic class.
	bool leads_to(const wire::AddressPair& a) const { return joins(a) && a.traffic_class == addresses_.traffic_class; }
	// The path has these addresses.
	bool joins(const wire::AddressPair& a) const {
		return std::memcmp(a.source, addresses_.source, 16) == 0 &&
			std::memcmp(a.destination, addresses_.destination, 16) == 0;
	}
	// A packet with these addresses is an answer on this path.
	bool comes_from(const wire::AddressPair& a) const {
		return std::memcmp(a.source, addresses_.destination, 16) == 0 &&
			std::memcmp(a.destination, addresses_.source, 16) == 0;
	}

	// The family of the destination.
	static link::Family family_of(const wire::AddressPair& a) {
		wire::Gid gid;
		std::memcpy(gid.data(), a.destination, 16);
		return wire::is_ipv4_mapped(gid) ? link::Family::ipv4 : link::Family::ipv6;
	}

private:
	static link::UdpPathOptions options_for(const wire::AddressPair& a) {
		link::UdpPathOptions options{.traffic_class = a.traffic_class, .hop_limit = a.hop_limit};
		std::memcpy(options.source.data(), a.source, 16);
		std::memcpy(options.destination.data(), a.destination, 16);
		const bool link_local = options.destination[0] == 0xfe && (options.destination[1] & 0xc0) == 0x80;
		if (!link_local && !wire::is_multicast(options.destination)) return options;
		// Link-local and multicast destinations need an interface: the one that has the source
		// address.
		for (const Interface& interface : list_interfaces())
			if (std::ranges::find(interface.gids, options.source) != interface.gids.end())
				options.interface_index = interface.index;
		return options;
	}

	wire::AddressPair addresses_;
	link::UdpPath path_;
	bool blocked_ = false;
};

}  // namespace verbena::engine
