// SPDX-License-Identifier: Apache-2.0
// The path to one address of another host: an outlet over UDP.
//
// Threads: under the engine's lock.
// Owns: the path, with the private ring that it drains into UDP packets; not the socket. A path
//   keeps the memory that its largest burst has touched, until trim().
// Lifetime: neither copied nor moved, because the outlet points here.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "nic/engine/interfaces.h"
#include "nic/engine/room.h"
#include "nic/link/udp_path.h"
#include "nic/transport/outlet.h"

namespace verbena::engine {

class Remote {
public:
	// Makes a path: a link::UdpPath, or one that is derived from it.
	using MakePath = std::function<std::unique_ptr<link::UdpPath>(const link::UdpPathOptions&)>;

	// `peer`: the same for all paths between the same two addresses.
	Remote(const MakePath& make, const wire::AddressPair& addresses, std::uint64_t peer)
		: Remote(addresses, make(options_for(addresses))) {
		outlet.peer = peer;
	}

	// The outlet for management datagrams, to any address of either family.
	explicit Remote(const MakePath& make) : Remote({}, make(options_for_management())) { outlet.addressed = true; }

	transport::Outlet outlet;

	// Sends what was written to the outlet. False: the socket has no room for all of it; call
	// again later.
	bool transmit() {
		blocked_ = !path_->transmit();
		if (blocked_) return false;
		burst_ = std::max(burst_, outlet.slots.rewind());
		return true;
	}
	bool blocked() const { return blocked_; }
	// When a blocked path is to be tried again, or `never` if a later pass is early enough.
	Nanoseconds due() const { return path_->due(); }
	// The process ends: what the path has kept leaves now.
	void finish() { path_->finish(); }
	// True if neither a packet nor a queue pair waits at the outlet, and no list of a pass has it.
	bool is_at_rest() { return !blocked_ && !outlet.touched && !outlet.waiting_first && outlet.slots.drained(); }

	// The memory that the path has touched since trim(), in bytes, beyond what trim() leaves.
	std::size_t touched_bytes() const {
		return outlet.slots.published() == trimmed_at_ ? 0 : link::UdpPath::slot_bytes + burst_;
	}
	// Gives that memory back; only if the path is at rest.
	void trim() {
		path_->trim();
		burst_ = 0;
		trimmed_at_ = outlet.slots.published();
	}
	std::size_t counted_bytes = 0;  // touched_bytes() as Remotes has last counted them

	RoomAsker asker;
	RoomGiver giver;

	const wire::AddressPair& addresses() const { return addresses_; }
	std::uint64_t published() const { return outlet.slots.published(); }
	// The errno of an ICMP message about the destination, if one came within `age`; otherwise 0.
	int unreachable(Nanoseconds age) { return recent_error(path_->unreachable(), age); }
	static int recent_error(const std::optional<link::UnreachableHosts::Report>& report, Nanoseconds age) {
		return report && monotonic_now() - report->at <= age ? report->error : 0;
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
	Remote(const wire::AddressPair& addresses, std::unique_ptr<link::UdpPath> path)
		: addresses_(addresses), path_(std::move(path)) {
		outlet.slots.attach(path_->direction());
		outlet.lossless = false;
		outlet.user = this;
	}

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
		options.interface_index = interface_with(options.source);
		return options;
	}
	// Link-local and multicast destinations need an interface: the one that has the source address.
	static std::uint32_t interface_with(const wire::Gid& source) {
		std::uint32_t index = 0;
		if (const auto interfaces = list_interfaces())
			for (const Interface& interface : *interfaces)
				if (find_gid(interface.gids, source)) index = interface.index;
		return index;
	}
	// Listing interfaces makes system calls, and strangers cause management datagrams, so an answer
	// is remembered for a second.
	static link::UdpPathOptions options_for_management() {
		struct Known {
			wire::Gid source{};
			std::uint32_t index = 0;
			Nanoseconds until = 0;
		};
		return {.addressed = true, .interface_of = [known = Known{}](const wire::Gid& source) mutable {
					const Nanoseconds now = monotonic_now();
					if (source != known.source || now >= known.until)
						known = {source, interface_with(source), now + 1'000'000'000};
					return known.index;
				}};
	}

	wire::AddressPair addresses_{};
	std::unique_ptr<link::UdpPath> path_;
	bool blocked_ = false;
	std::uint32_t burst_ = 0;  // the most bytes of payload at once since trim()
	std::uint64_t trimmed_at_ = 0;  // published() at the last trim()
};

}  // namespace verbena::engine
