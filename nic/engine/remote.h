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
	// The errno of an ICMP message about the destination, if one came within `age`; otherwise 0.
	int unreachable(Nanoseconds age) { return recent_error(path_.unreachable(), age); }
	static int recent_error(const std::optional<link::UnreachableHosts::Report>& report, Nanoseconds age) {
		return report && monotonic_now() - report->at <= age ? report->error : 0;
	}

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
	static link::Family family_of(const wire::AddressPair& a) { return family_of(a.destination); }
	// A path has one family. A program can ask for two, by its GID index and its peer's GID.
	static bool is_one_family(const wire::AddressPair& a) { return family_of(a.source) == family_of(a.destination); }

private:
	static link::Family family_of(const std::uint8_t (&bytes)[16]) {
		wire::Gid gid;
		std::memcpy(gid.data(), bytes, 16);
		return wire::is_ipv4_mapped(gid) ? link::Family::ipv4 : link::Family::ipv6;
	}

	static link::UdpPathOptions options_for(const wire::AddressPair& a) {
		link::UdpPathOptions options{.traffic_class = a.traffic_class, .hop_limit = a.hop_limit};
		std::memcpy(options.source.data(), a.source, 16);
		std::memcpy(options.destination.data(), a.destination, 16);
		const bool link_local = options.destination[0] == 0xfe && (options.destination[1] & 0xc0) == 0x80;
		if (!link_local && !wire::is_multicast(options.destination)) return options;
		// Link-local and multicast destinations need an interface: the one that has the source
		// address.
		const auto interfaces = list_interfaces();
		if (!interfaces) return options;
		for (const Interface& interface : *interfaces)
			if (find_gid(interface.gids, options.source)) options.interface_index = interface.index;
		return options;
	}

	wire::AddressPair addresses_;
	link::UdpPath path_;
	bool blocked_ = false;
};

}  // namespace verbena::engine
