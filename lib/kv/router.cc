// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/router.h"

#include <algorithm>
#include <iterator>

#include "lib/kv/placement.h"

namespace verbena::kv {

using async::Task;
using Opened = std::expected<std::unique_ptr<Router>, std::string>;

Router::Router(Session& session, const ClientOptions& options, const RouterOptions& how)
	: session_(session), options_(options), how_(how) {}

Task<Opened> Router::open(Session& session, ClientOptions options, RouterOptions how) {
	std::unique_ptr<Router> router(new Router(session, options, how));
	if (session.members() == nullptr) {
		router->adopt(session.servers(), session.options().patience);
	} else {
		router->no_server_ = "no server is a member of " + session.options().host;
		router->follow_members();
		if (router->routes_.empty()) co_return std::unexpected(router->no_server_);
	}
	while (true) {
		if (std::ranges::any_of(router->routes_, [](const auto& each) { return each->connected(); })) co_return router;
		const auto waits = std::ranges::find_if(router->routes_, [](const auto& each) { return !each->tried(); });
		if (waits == router->routes_.end())
			co_return std::unexpected(router->routes_.empty() ? router->no_server_ : router->routes_.front()->reason());
		co_await async::Park(router->opening_);
	}
}

Opened Router::open_now(Session& session, const ClientOptions& options, const RouterOptions& how) {
	Opened result;
	session.loop().complete(
		[](Session& session, ClientOptions options, RouterOptions how, Opened& result) -> Task<void> {
			auto opening = open(session, options, how);
			result = co_await std::move(opening);
		}(session, options, how, result));
	return result;
}

Call Router::set(std::string_view key, channel::Place value, SetOptions options) {
	const Bytes bytes = value.bytes();
	return {*this, Call::Kind::set, key, bytes, std::move(value), options};
}

Conditional Router::set_if(std::string_view key, channel::Place value, std::uint64_t expected, SetOptions options) {
	const Bytes bytes = value.bytes();
	return {*this, Call::Kind::set, key, bytes, std::move(value), expected, options};
}

// Placement.

// Makes this the list of servers. Servers of both lists keep their routes.
void Router::adopt(const std::vector<std::string>& names, Nanoseconds patience) {
	std::vector<std::unique_ptr<Route>> routes;
	Route::Owner& owner = *this;
	for (const std::string& name : names) {
		const auto present =
			std::ranges::find_if(routes_, [&](const auto& each) { return each && each->name() == name; });
		routes.push_back(present != routes_.end()
				? std::move(*present)
				: std::make_unique<Route>(owner, session_, options_, how_, name, patience));
	}
	std::erase(routes_, nullptr);
	std::erase_if(departed_, [](const auto& each) { return each->ended(); });
	const std::size_t before = departed_.size();
	std::ranges::move(routes_, std::back_inserter(departed_));
	names_ = names;
	routes_ = std::move(routes);
	place_slots();
	for (std::size_t i = before; i < departed_.size(); ++i) departed_[i]->leave();
	for (const auto& route : routes_) route->submit_waiting();
	async::List<async::Waiter> again;
	again.splice(homeless_);
	while (auto* const call = static_cast<Call*>(again.pop_front())) place_again(*call);
	place_watches();
	route_changed();
}

void Router::place_slots() {
	route_of_slot_.clear();
	if (session_.members() == nullptr || routes_.empty()) return;
	for (std::size_t slot = 0; slot < slot_count; ++slot)
		route_of_slot_.push_back(routes_[owner_of_slot(names_, slot)].get());
}

Running Router::follow_members() {
	for (Nanoseconds patience = session_.options().patience;; patience = Backoff::patience_min) {
		adopt(session_.members()->list(), patience);
		co_await async::Park(session_.member_changes());
	}
}

Route* Router::route_of(std::string_view key) const {
	if (routes_.size() == 1) return routes_.front().get();
	if (!route_of_slot_.empty()) return route_of_slot_[slot_of(key)];
	return routes_.empty() ? nullptr : routes_[owner_of(names_, key)].get();
}

Route* Router::route_for(const Call& call) const {
	if (call.server_.empty()) return route_of(call.key_);
	const auto found =
		std::ranges::find(routes_, call.server_, [](const auto& each) -> std::string_view { return each->name(); });
	return found == routes_.end() ? nullptr : found->get();
}

std::string_view Router::server_of(std::string_view key) const {
	const Route* const route = route_of(key);
	return route == nullptr ? std::string_view() : route->name();
}

std::string Router::reason(std::string_view key) const {
	const Route* const route = route_of(key);
	std::string reason = route == nullptr ? no_server_ : route->reason();
	const std::string etcd = session_.members() == nullptr ? "" : session_.members()->failure();
	if (!etcd.empty()) reason += (reason.empty() ? "" : "; ") + etcd;
	return reason;
}

bool Router::leaves_registered(std::string_view key, std::size_t value) const {
	const Route* const route = route_of(key);
	const Client* const client = route == nullptr ? nullptr : route->client();
	return client != nullptr && client->channel().direct() && !client->is_eager(key.size(), value);
}

// Operations.

void Router::start(Call& call) {
	if (const auto fault = call.fault()) return call.finish(fault, session_.loop());
	if (call.value_.size() > value_max) return call.finish(Error::long_value, session_.loop());
	if (call.deadline_ != 0) session_.loop().schedule(call, call.deadline_);
	else call.deadline_ = how_.timeout == never ? never : session_.loop().now() + how_.timeout;
	if (Route* const route = route_for(call); route != nullptr) route->start(call);
	else place_again(call);
}

// The call is older than others of the route, so it gets a timer of its own.
void Router::place_again(Call& call) {
	session_.loop().schedule(call, call.deadline_);
	if (Route* const route = route_for(call); route != nullptr) return route->start(call);
	if (!call.server_.empty()) return call.finish(Error::unavailable, session_.loop());
	call.keeper_ = nullptr;
	homeless_.push_back(call);
}

void Router::forget(Call& call) {
	session_.loop().cancel(call);
	if (call.client_ != nullptr) call.client_->forget(call);
}

void Router::expired(Call& call) {
	if (call.keeper_ != nullptr) call.keeper_->expired(call);
	else call.finish(Error::unavailable, session_.loop());
}

void Router::route_changed() { session_.loop().resume_soon(opening_); }

void Router::close() {
	for (const auto* routes : {&routes_, &departed_})
		for (const auto& route : *routes) route->close();
}

Task<void> Router::until_closed() {
	for (const auto* routes : {&routes_, &departed_})
		for (const auto& route : *routes) co_await route->until_closed();
}

// Counters.

ClientCounters Router::counters() const {
	ClientCounters sum;
	for (const auto* routes : {&routes_, &departed_})
		for (const auto& route : *routes) sum += route->counters();
	return sum;
}

RouterCounters Router::router_counters() const {
	RouterCounters sum;
	for (const auto* routes : {&routes_, &departed_})
		for (const auto& route : *routes) {
			sum.connects += route->connects();
			sum.retries += route->retries();
		}
	return sum;
}

void Router::reset_depth() {
	for (const auto& route : routes_)
		if (Client* const client = route->client(); client != nullptr) client->reset_depth();
}

}  // namespace verbena::kv
