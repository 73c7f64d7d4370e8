// SPDX-License-Identifier: Apache-2.0
// The engine's functions that find or make the way to a destination: a link to a process of this
// host, or a path to another host.
#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "base/log.h"
#include "nic/engine/engine.h"
#include "nic/engine/unreachable.h"

namespace verbena::engine {

using transport::Outlet;

namespace {

// Another user's process may own what none of this user's does.
void explain_refusal(int error, Place place, const char* wanted) {
	const uid_t user = geteuid();
	const auto owner = error == ECONNREFUSED || error == EPERM ? other_owner(place, user) : std::nullopt;
	if (owner) explain_other_user(*owner, user, wanted);
	else explain_no_neighbour(error, wanted);
}

// A busy machine may well keep a process off its processors for seconds.
constexpr std::chrono::milliseconds connect_patience{5000};

}  // namespace

std::expected<Outlet*, int> Engine::neighbour_outlet(Place place, bool patient) {
	const auto find = [&] { return control([&](adapter::ChannelAdapter&) { return neighbours_.find(place); }); };
	if (Outlet* known = find()) return known;
	const std::lock_guard one_at_a_time(connect_mutex_);
	if (Outlet* known = find()) return known;  // another thread has connected meanwhile
	const auto attempt = control([&](adapter::ChannelAdapter&) { return neighbours_.begin_connect(place, patient); });
	if (!attempt) return std::unexpected(attempt.error());
	auto peer = connect_to(own_.identity(), Directory::of_this_user(), place, connect_patience, &stranger_patience_);
	return control([&](adapter::ChannelAdapter&) { return neighbours_.finish_connect(*attempt, std::move(peer)); });
}

bool Engine::is_wire_only(Place place) {
	return control([&](adapter::ChannelAdapter&) {
		const Outlet* const outlet = neighbours_.find(place);
		return outlet && outlet->lossless && static_cast<const Link*>(outlet->user)->is_wire_only();
	});
}

std::expected<Outlet*, int> Engine::outlet_to(
	const wire::AddressPair& addresses, bool local, wire::Qpn qpn, bool patient) {
	if (abandoned_) return std::unexpected(EIO);
	const Place owner = Place::block(block_of(qpn));
	if (local && !network_) {
		auto outlet = neighbour_outlet(owner, patient);
		// The address is this host's, and none of this user's processes owns the QPN. It may be
		// another user's, or unused. Requests leave by UDP and are lost there.
		if (!outlet) explain_refusal(outlet.error(), owner, "the peer's queue pair");
		const bool takes_wire = outlet ? is_wire_only(owner) : outlet.error() == ECONNREFUSED;
		if (!takes_wire) return outlet;
	}
	return wire_outlet(addresses, For::packets);
}

std::expected<Outlet*, int> Engine::service_outlet(
	const wire::AddressPair& addresses, bool local, cm::ServiceId service) {
	if (abandoned_) return std::unexpected(EIO);
	const Place owner = Place::service(service.value);
	if (!local || network_) return wire_outlet(addresses, For::management);
	auto outlet = neighbour_outlet(owner);
	if (outlet && is_wire_only(owner)) return wire_outlet(addresses, For::management);
	if (!outlet) explain_refusal(outlet.error(), owner, "the peer's port");
	return outlet;
}

std::expected<Outlet*, int> Engine::wire_outlet(const wire::AddressPair& addresses, For use) {
	auto outlet = control([&](adapter::ChannelAdapter&) {
		return use == For::packets ? remotes_.outlet_to(addresses) : remotes_.management_outlet(addresses);
	});
	if (!outlet) explain_no_wire(outlet.error());
	else log::debug("a path to another host, by UDP, is used");
	return outlet;
}

void Engine::explain_no_answer(const wire::Gid& peer, Nanoseconds age) {
	engine::explain_no_answer(peer, remotes_.unreachable(peer, age));
}

bool Engine::explain_icmp(const wire::Gid& peer, Nanoseconds age) {
	return engine::explain_icmp(peer, remotes_.unreachable(peer, age));
}

std::expected<std::uint8_t, int> Engine::address_index(Outlet& outlet, const wire::AddressPair& pair) {
	return control([&](adapter::ChannelAdapter&) -> std::expected<std::uint8_t, int> {
		std::vector<wire::AddressPair>& known = addresses_[&outlet];
		const auto at = std::find(known.begin(), known.end(), pair);
		if (at != known.end()) return static_cast<std::uint8_t>(at - known.begin());
		if (known.size() == transport::cm_address_index) return std::unexpected(ENOSPC);
		outlet.slots.direction()->addresses[known.size()] = pair;
		known.push_back(pair);
		return static_cast<std::uint8_t>(known.size() - 1);
	});
}

}  // namespace verbena::engine
