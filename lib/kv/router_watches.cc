// SPDX-License-Identifier: Apache-2.0
// The part of Router that asks the servers for events: those of a key at its server, those of a
// prefix at all.
#include "lib/kv/router.h"
#include "lib/kv/watch.h"

namespace verbena::kv {

bool Router::is_watched(const Watch& watch, const Route& route) const {
	return watch.scope() == Scope::prefix || route_of(watch.text()) == &route;
}

void Router::enter(Watch& watch) {
	if (watches_.size() >= watches_max) return watch.refuse(Error::many_watches);
	const bool may_be_empty = watch.scope() == Scope::prefix && watch.text().empty();
	if (const auto fault = fault_of(watch.text()); fault && !may_be_empty) return watch.refuse(*fault);
	// A number is used once on each connection, or late events of another watch would be mixed in.
	watches_.emplace(++last_watch_, &watch);
	watch.number_ = last_watch_;
	for (const auto& route : routes_)
		if (Client* const client = route->client(); client != nullptr && is_watched(watch, *route))
			client->watch(watch.number_, watch.text(), watch.scope(), watch);
}

void Router::leave(Watch& watch) {
	watches_.erase(watch.number_);
	for (const auto* const routes : {&routes_, &departed_})
		for (const auto& route : *routes)
			if (Client* const client = route->client(); client != nullptr) client->unwatch(watch.number_);
}

void Router::route_connected(Client& client, const Route& route) {
	for (const auto& [number, watch] : watches_)
		if (is_watched(*watch, route)) client.watch(number, watch->text(), watch->scope(), *watch);
}

// The members have changed. Keys of one that has left are missing now, and no server sends events
// about that.
void Router::place_watches() {
	for (const auto& [number, watch] : watches_) {
		for (const auto& route : routes_) {
			Client* const client = route->client();
			if (client == nullptr || client->watches(number) == is_watched(*watch, *route)) continue;
			if (client->watches(number)) client->unwatch(number);
			else client->watch(number, watch->text(), watch->scope(), *watch);
		}
		watch->look_again();
	}
}

}  // namespace verbena::kv
