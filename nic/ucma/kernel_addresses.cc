// SPDX-License-Identifier: Apache-2.0
// Kernel: the commands for ports, addresses, neighbours and routes, which an id needs before it can
// connect.
#include "nic/ucma/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <utility>

#include "base/random.h"
#include "nic/engine/boundary.h"
#include "nic/engine/unreachable.h"
#include "nic/ucma/attributes.h"
#include "nic/ucma/neighbour.h"

namespace verbena::ucma {

using State = Id::State;
using Unexpected = std::unexpected<int>;

namespace {

// The default of the kernel's net.ipv4.ip_local_port_range.
constexpr std::uint16_t ephemeral_first = 32768, ephemeral_last = 60999;
constexpr Nanoseconds neighbour_look_interval = 20'000'000;

// True if these two ids cannot use the same port.
bool overlap(const Id& a, const Id& b) {
	return a.is_wildcard() || b.is_wildcard() || a.source.gid() == b.source.gid();
}

}  // namespace

// The errno value that prevents `id` from using the port, or 0. Bound ids with REUSEADDR may share
// a port; a listener needs it alone.
int Kernel::port_conflict(const Id& id, cm::ServiceId service, bool to_listen) const {
	const auto [first, last] = ports_.equal_range(service);
	for (auto at = first; at != last; ++at) {
		const Id& other = *at->second;
		const bool shared = !to_listen && id.reuse_address && other.reuse_address && other.state != State::listening;
		if (&other == &id || shared || !overlap(id, other)) continue;
		return id.is_wildcard() || other.is_wildcard() ? EADDRNOTAVAIL : EADDRINUSE;
	}
	return 0;
}

// The process owns a port on this host (engine: claim_service) while at least one of its ids has
// it. Ids of one process can have the same port with different addresses.
std::expected<void, int> Kernel::take_port(Id& id, std::uint16_t wanted, const std::optional<Place>& place) {
	const auto found = find_port(id, wanted, place);
	return found ? found : fail_binding(id, found.error());
}

std::expected<void, int> Kernel::fail_binding(Id& id, int error) {
	locked([&](cm::ConnectionManager&, Nanoseconds) {
		if (id.state != State::binding) return 0;
		id.source = {};
		id.state = State::idle;
		return 0;
	});
	return Unexpected(error);
}

std::expected<void, int> Kernel::find_port(Id& id, std::uint16_t wanted, const std::optional<Place>& place) {
	Random random(secure_random<std::uint64_t>());
	int conflict = EADDRNOTAVAIL;
	for (int attempt = 0; attempt < (wanted ? 1 : 200); ++attempt) {
		const std::uint16_t port = wanted
			? wanted
			: static_cast<std::uint16_t>(ephemeral_first + random.below(ephemeral_last - ephemeral_first + 1));
		const cm::ServiceId service = cm::service_of(id.port_space, port);
		enum {
			ours,
			taken,
			free
		} verdict = locked([&](cm::ConnectionManager&, Nanoseconds) {
			if (!ports_.contains(service)) return free;
			if (!wanted) return taken;
			conflict = port_conflict(id, service, false);
			return conflict ? taken : ours;
		});
		if (verdict == taken) continue;
		if (verdict == free) {
			// Claiming binds a socket name, so it happens without the lock.
			const auto claimed = engine_->claim_service(service);
			if (!claimed && claimed.error() == EADDRINUSE) {
				conflict = wanted && !id.is_wildcard() ? EADDRINUSE : EADDRNOTAVAIL;
				continue;
			}
			if (!claimed) return claimed;
		}
		bool release = false;
		const bool bound = locked([&](cm::ConnectionManager&, Nanoseconds) {
			if (id.state != State::binding) {
				release = !ports_.contains(service);
				return false;
			}
			id.source.set_port(port);
			id.place = place;
			id.owns_port = true;
			id.state = State::bound;
			ports_.insert({service, &id});
			return true;
		});
		if (release) engine_->release_service(service);
		if (!bound) return Unexpected(EINVAL);
		return {};
	}
	return Unexpected(conflict);
}

Kernel::Result Kernel::bind(Channel& channel, std::uint32_t number, const void* bytes, std::size_t size) {
	const auto address = Address::from(bytes, size);
	if (!address || address->lacks_scope()) return Unexpected(EINVAL);
	bool is_wildcard = false;
	const auto id = locked([&](cm::ConnectionManager&, Nanoseconds) {
		auto found = find(channel, number);
		if (found && (*found)->state != State::idle) found = Unexpected(EINVAL);
		if (!found) return found;
		(*found)->source = *address;
		(*found)->state = State::binding;
		is_wildcard = (*found)->is_wildcard();
		return found;
	});
	if (!id) return Unexpected(id.error());
	std::optional<Place> place;
	if (!is_wildcard) {
		const auto devices = host_.devices();
		place = place_of(devices, *address);
		// As the kernel: EADDRNOTAVAIL for an address that is not this host's, ENODEV for one
		// without an RDMA device.
		if (!place) return fail_binding(**id, source_for(*address, *address) ? ENODEV : EADDRNOTAVAIL);
	}
	return take_port(**id, address->port(), place);
}

Kernel::Result Kernel::resolve_address(Channel& channel, std::uint32_t number, const Address& given_source,
	const Address& given_destination, std::uint32_t timeout_ms) {
	const auto may_resolve = [](const Id& one) { return one.state == State::idle || one.state == State::bound; };
	Address from = given_source;
	const auto found = locked([&](cm::ConnectionManager&, Nanoseconds) -> std::expected<std::shared_ptr<Id>, int> {
		auto one = find(channel, number);
		if (one && !may_resolve(**one)) return Unexpected(EINVAL);
		if (one && (*one)->state == State::bound) from = (*one)->source;
		return one;
	});
	if (!found) return Unexpected(found.error());
	const std::shared_ptr<Id>& id = *found;
	Address destination = given_destination;
	if (destination.is_any()) {
		// The wildcard address as a destination means this host.
		wire::Gid loopback{};
		if (destination.family() == AF_INET) loopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
		else loopback[15] = 1;
		destination = Address::from(loopback, destination.port());
	}
	if (from.given() && from.family() != destination.family()) return Unexpected(EINVAL);
	if (from.lacks_scope()) return Unexpected(EINVAL);
	if (from.is_loopback() && !id->is_datagram() && !destination.is_loopback()) {
		// The kernel finds no device at the loopback's addresses.
		return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
			if (id->state != State::destroyed) report(id, EventType::address_error, -ENODEV);
			return {};
		});
	}
	const auto source = source_for(destination, from);
	if (!source) return Unexpected(source.error());
	const auto devices = host_.devices();
	auto place = place_of(devices, *source);
	if (!place) return Unexpected(ENODEV);
	const Neighbour neighbour = probe_neighbour(destination, *source);
	return locked([&](cm::ConnectionManager&, Nanoseconds now) -> Result {
		if (!may_resolve(*id)) return Unexpected(EINVAL);
		const std::uint16_t port = id->owns_port ? id->source.port() : given_source.given() ? given_source.port() : 0;
		id->source = *source;
		// No peer connects to an active id's port, so an arbitrary number need not be reserved.
		if (port) id->source.set_port(port);
		else if (!id->owns_port)
			id->source.set_port(static_cast<std::uint16_t>(
				ephemeral_first + secure_random<std::uint32_t>() % (ephemeral_last - ephemeral_first + 1)));
		id->destination = destination;
		id->place = std::move(place);
		if (neighbour == Neighbour::there) {
			id->state = State::address_resolved;
			report(id, EventType::address_resolved);
			return {};
		}
		const State before = std::exchange(id->state, State::resolving);
		auto started = start_neighbour_lookup(id, now + Nanoseconds{timeout_ms} * 1'000'000);
		if (!started) id->state = before;
		return started;
	});
}

Kernel::Result Kernel::start_neighbour_lookup(std::shared_ptr<Id> id, Nanoseconds deadline) {
	pending_lookups_.push_back({std::move(id), deadline});
	if (lookup_running_) return {};
	// The thread has found the list empty and is returning.
	if (lookup_thread_.joinable()) lookup_thread_.join();
	auto thread = engine::Thread::start("verbena-seek", [this] { seek(); });
	if (!thread) {
		pending_lookups_.pop_back();
		return Unexpected(thread.error());
	}
	lookup_thread_ = std::move(*thread);
	lookup_running_ = true;
	return {};
}

// Looks for the neighbours of `pending_lookups_` until each was found or its deadline has passed.
// The kernel reports no change of a neighbour without a netlink subscription, so this thread polls.
void Kernel::seek() {
	for (;;) {
		bool any = true;  // without memory, try again after the pause
		engine::attempt([&] { any = seek_once(); });
		if (!any) return;
		const timespec pause{0, static_cast<long>(neighbour_look_interval)};
		nanosleep(&pause, nullptr);
	}
}

bool Kernel::seek_once() {
	std::vector<std::pair<std::shared_ptr<Id>, Nanoseconds>> lookups;
	locked([&](cm::ConnectionManager&, Nanoseconds) {
		for (const NeighbourLookup& sought : pending_lookups_) lookups.emplace_back(sought.id, sought.deadline);
		lookup_running_ = !pending_lookups_.empty();
		return 0;
	});
	if (lookups.empty()) return false;
	for (const auto& lookup : lookups) {
		const std::shared_ptr<Id>& id = lookup.first;
		const Nanoseconds deadline = lookup.second;
		const Neighbour neighbour = probe_neighbour(id->destination, id->source);
		const bool over = monotonic_now() >= deadline;
		if (neighbour == Neighbour::unknown && !over) continue;
		locked([&](cm::ConnectionManager&, Nanoseconds) {
			if (id->state == State::resolving) {
				const bool there = neighbour == Neighbour::there;
				report(id, there ? EventType::address_resolved : EventType::address_error,
					there                                ? 0
						: neighbour == Neighbour::absent ? -EHOSTUNREACH
														 : -ETIMEDOUT);
				if (!there) engine::explain_no_host(id->destination.gid());
				id->state = there ? State::address_resolved : id->owns_port ? State::bound : State::idle;
			}
			std::erase_if(pending_lookups_, [&](const NeighbourLookup& sought) { return sought.id == id; });
			return 0;
		});
	}
	return true;
}

Kernel::Result Kernel::resolve_route(Channel& channel, const rdma_ucm_resolve_route& c) {
	return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if ((*id)->state != State::address_resolved) return Unexpected(EINVAL);
		(*id)->state = State::route_resolved;
		report(*id, EventType::route_resolved);
		return {};
	});
}

namespace {

bool has_route(const Id& id) {
	return id.state >= State::route_resolved && id.state != State::listening && id.destination.given();
}

// On RoCE, both GIDs determine the whole path record.
ib_user_path_rec path_of(const Id& id) {
	ib_user_path_rec path{};
	const wire::Gid to = id.destination_gid();
	std::ranges::copy(to, path.dgid);
	std::ranges::copy(id.place->gid, path.sgid);
	path.reversible = 1;
	path.mtu = engine::active_mtu_code(id.place->device.interface.mtu);
	path.pkey = htobe16(0xffff);
	path.hop_limit = 64;
	path.traffic_class = id.traffic_class;
	path.numb_path = 1;
	path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;  // exactly
	path.packet_life_time = 16;
	return path;
}

}  // namespace

Kernel::Result Kernel::query_route(Channel& channel, const rdma_ucm_query& c, std::size_t room) {
	rdma_ucm_query_route_resp response{};
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = find(channel, c.id);
		if (!at) return Unexpected(at.error());
		const Id& id = **at;
		std::memcpy(&response.src_addr, id.source.get(), id.source.size());
		std::memcpy(&response.dst_addr, id.destination.get(), id.destination.size());
		if (!id.place) return {};
		response.node_guid = htobe64(id.place->device.guid);
		response.ibdev_index = static_cast<std::uint32_t>(id.place->device.index);
		response.port_num = 1;
		if (!id.destination.given()) return {};
		response.ib_route[0] = path_of(id);
		response.num_paths = has_route(id);
		return {};
	});
	return found ? respond(c.response, room, response) : found;
}

Kernel::Result Kernel::query(Channel& channel, const rdma_ucm_query& c, std::size_t room) {
	rdma_ucm_query_addr_resp response{};
	std::uint32_t paths = 0;
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = find(channel, c.id);
		if (!at) return Unexpected(at.error());
		const Id& id = **at;
		paths = has_route(id);
		response.src_size = static_cast<std::uint16_t>(id.source.size());
		response.dst_size = static_cast<std::uint16_t>(id.destination.size());
		std::memcpy(&response.src_addr, id.source.get(), id.source.size());
		std::memcpy(&response.dst_addr, id.destination.get(), id.destination.size());
		response.pkey = 0xffff;
		if (!id.place) return {};
		response.node_guid = htobe64(id.place->device.guid);
		response.ibdev_index = static_cast<std::uint32_t>(id.place->device.index);
		response.port_num = 1;
		return {};
	});
	if (!found) return found;
	switch (c.option) {
		case RDMA_USER_CM_QUERY_ADDR: return respond(c.response, room, response);
		// Path records exist on InfiniBand only; librdmacm gets an empty list.
		case RDMA_USER_CM_QUERY_PATH:
			return respond(c.response, std::min(room, sizeof(rdma_ucm_query_path_resp)), rdma_ucm_query_path_resp{});
		default: return Unexpected(ENOSYS);
	}
}

}  // namespace verbena::ucma
