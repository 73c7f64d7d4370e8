// SPDX-License-Identifier: Apache-2.0
// The part of Router that asks the servers for events: those of a key at its server, those of a
// prefix at all.
#include "lib/kv/router.h"
#include "lib/kv/watch.h"

namespace verbena::kv {

// Lets the connection of this route send the watch's events, or no events, as its keys are placed.
void Router::place(Watch& watch, const Route& route) {
	Client* const client = route.client();
	if (client == nullptr) return;
	const bool wanted = !watch.error() && (watch.scope() == Scope::prefix || route_of(watch.text()) == &route);
	if (wanted == client->watches(watch.number_)) return;
	if (wanted) client->watch(watch.number_, watch.text(), watch.scope(), watch);
	else client->unwatch(watch.number_);
}

void Router::enter(Watch& watch) {
	if (watches_.size() >= watches_max) return watch.refuse(Error::many_watches);
	const bool may_be_empty = watch.scope() == Scope::prefix && watch.text().empty();
	if (const auto fault = fault_of(watch.text()); fault && !may_be_empty) return watch.refuse(*fault);
	// A number is used once on each connection, or late events of another watch would be mixed in.
	watch.number_ = ++last_watch_;
	watches_.emplace(watch.number_, &watch);
	for (const auto& route : routes_) place(watch, *route);
}

void Router::leave(Watch& watch) {
	watches_.erase(watch.number_);
	for (const auto* const routes : {&routes_, &departed_})
		for (const auto& route : *routes)
			if (Client* const client = route->client(); client != nullptr) client->unwatch(watch.number_);
}

void Router::route_connected(const Route& route) {
	for (const auto& [number, watch] : watches_) place(*watch, route);
}

// The members have changed. Keys of one that has left are missing now, and no server sends events
// about that.
void Router::place_watches() {
	for (const auto& [number, watch] : watches_) {
		for (const auto& route : routes_) place(*watch, *route);
		watch->look_again();
	}
}

}  // namespace verbena::kv
