// SPDX-License-Identifier: Apache-2.0
// Router: a client of one or several servers, each of which has its share of the keys
// (placement.h). Each operation has a deadline and waits for no other server than its own.
//
//     auto router = co_await Router::open(session, {});
//     auto done = co_await (*router)->set("key", bytes);  // std::expected<void, Error>
//     auto value = co_await (*router)->get("key");        // std::expected<Fetched, Error>
//
// The servers are a fixed list, or the members of an etcd prefix (lib/discovery/members.h).
// Connections are made in the background and made again when they are lost. Unanswered operations
// are then sent again; a server executes each change once (sessions.h).
//
// Any number of operations may be under way; they have no order among themselves.
//
// Threads: one, that of the session's loop.
// Lifetime: dies before the session. Calls that were started may outlive it only if they are done.
// Errors: at its deadline an operation fails with Error::unavailable if it is known that nothing
//   was executed, otherwise with Error::timeout. It fails with Error::lost if the server has lost
//   its content or has left the prefix, and it is unknown whether a change was executed before.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/kv/route.h"

namespace verbena::kv {

struct RouterCounters {
	std::uint64_t connects = 0;  // connections made
	std::uint64_t retries = 0;  // operations that waited for a new connection, or a busy server
};

class Watch;

class Router final : private CallMaker, private Route::Owner {
public:
	// Begins to connect to all servers. Returns when one is connected, or fails with one sentence
	// when no connect has succeeded.
	static async::Task<std::expected<std::unique_ptr<Router>, std::string>> open(
		Session& session, ClientOptions options, RouterOptions how = RouterOptions());
	// The same outside of the loop, which it runs until that is done.
	static std::expected<std::unique_ptr<Router>, std::string> open_now(
		Session& session, const ClientOptions& options, const RouterOptions& how = RouterOptions());

	// The operations; they start when they are awaited. Results are Result<void> and, for get(),
	// Result<Fetched>.
	Call set(std::string_view key, Bytes value, SetOptions options = {}) {
		return {*this, Call::Kind::set, key, value, {}, options};
	}
	Call set(std::string_view key, channel::Place value, SetOptions options = {});
	Getting get(std::string_view key) { return {*this, key, false}; }
	Call remove(std::string_view key) { return {*this, Call::Kind::remove, key, {}, {}}; }
	// A GET whose Fetched has the version. It is never one-sided.
	Getting get_versioned(std::string_view key) { return {*this, key, true}; }
	// Changes that are made only if the key has the version `expected`; 0: if it is missing. The
	// result is the new version.
	Conditional set_if(std::string_view key, Bytes value, std::uint64_t expected, SetOptions options = {}) {
		return {*this, Call::Kind::set, key, value, {}, expected, options};
	}
	Conditional set_if(std::string_view key, channel::Place value, std::uint64_t expected, SetOptions options = {});
	Conditional remove_if(std::string_view key, std::uint64_t expected) {
		return {*this, Call::Kind::remove, key, {}, {}, expected};
	}

	// The maker of calls that are begun without a coroutine (submission.h).
	CallMaker& maker() { return *this; }

	// The names of all servers, and the text of INFO of one of them (facts.h). `server`
	// must not change until the call is done, which fails with Error::unavailable if there is no
	// such server.
	const std::vector<std::string>& servers() const { return names_; }
	Getting info(std::string_view server) { return {*this, Call::Kind::info, server}; }
	// A page of keys of one of them (scan.h has the walk over all).
	Getting scan(std::string_view server, std::string_view prefix, const ScanRequest& request) {
		return {*this, Call::Kind::scan, server, prefix, bytes_of(request)};
	}

	// For Watch (watch.h): begins its events, and ends them.
	void enter(Watch& watch);
	void leave(Watch& watch);
	void resume(async::List<async::Waiter>& waiting) { session_.loop().resume_soon(waiting); }

	// The name of the key's server; empty if there is none.
	std::string_view server_of(std::string_view key) const;
	// One sentence that says why the key's server was not reached or was lost, and one that says
	// why etcd cannot be asked for the members; may be empty.
	std::string reason(std::string_view key) const;
	// True if a SET of this key now would leave from registered memory (rendezvous).
	bool leaves_registered(std::string_view key, std::size_t value) const;

	// Changes the options of present and later connections.
	template <class Change> void adjust(Change change) {
		change(options_);
		for (const auto& route : routes_)
			if (Client* const client = route->client(); client != nullptr) change(client->options());
	}
	const RouterOptions& how() const { return how_; }

	// Closes all connections; until_closed() waits until that is done.
	void close();
	async::Task<void> until_closed();
	ClientCounters counters() const;
	RouterCounters router_counters() const;
	// Resets ClientCounters::under_way_max to the number of operations under way now.
	void reset_depth();
	std::size_t size() const { return routes_.size(); }  // servers

private:
	friend class Running;
	Router(Session& session, const ClientOptions& options, const RouterOptions& how);
	Route* route_of(std::string_view key) const;
	Route* route_for(const Call& call) const;
	void adopt(const std::vector<std::string>& names, Nanoseconds patience);
	void place_slots();
	void place(Watch& watch, const Route& route);
	void place_watches();
	Running follow_members();

	void start(Call& call) override;
	void forget(Call& call) override;
	void expired(Call& call) override;
	void route_changed() override;
	void route_connected(const Route& route) override;
	void place_again(Call& call) override;
	bool is_placed(const Call& call, const Route& route) const override { return route_for(call) == &route; }

	Session& session_;
	ClientOptions options_;
	RouterOptions how_;
	std::vector<std::string> names_;  // sorted
	std::vector<std::unique_ptr<Route>> routes_;  // one for each name
	std::vector<Route*> route_of_slot_;  // empty for a fixed list
	std::vector<std::unique_ptr<Route>> departed_;  // their servers are no members any more
	std::map<std::uint32_t, Watch*> watches_;  // by number
	std::uint32_t last_watch_ = 0;  // the number of the last one
	async::List<async::Waiter> homeless_;  // calls while there is no server at all
	async::List<async::Waiter> opening_;  // open(), until a route changes
	std::string no_server_;  // reason() while there is none
	Coroutines coroutines_;
};

}  // namespace verbena::kv
