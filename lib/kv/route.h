// SPDX-License-Identifier: Apache-2.0
// Route: the way of a client's operations to one server. It connects in the background, connects
// again with pauses (backoff.h) when the connection is lost, and sends unanswered operations again.
//
// Threads: one, that of the session's loop. Connecting makes progress only while the loop runs.
// Owns: the connections to this server.
// Lifetime: dies before the session, and after the calls that it has.
// Errors: an operation waits for this server until its deadline (Router). It fails with Error::lost
//   if it was sent, has no answer, and may not be sent again (attempts.h).
#pragma once

#include <memory>
#include <string>

#include "lib/kv/backoff.h"
#include "lib/kv/session.h"

namespace verbena::kv {

// The deadline and the repetition of a router's operations.
struct RouterOptions {
	Nanoseconds timeout = 10'000'000'000;  // for each operation; `never`: none
	// True: an operation whose connection is lost is sent again. False: it fails with Error::lost.
	bool retry = true;
};

class Route final : private Keeper, private async::Timer {
public:
	// Hears from its routes.
	class Owner {
	public:
		// connected() or tried() has changed.
		virtual void route_changed() = 0;
		// There is a new connection.
		virtual void route_connected(const Route& route) = 0;
		// The server of this call has left or has lost its key; the call was not sent, or may be
		// sent elsewhere.
		virtual void place_again(Call& call) = 0;
		// Whether this route leads to the server of this call.
		virtual bool is_placed(const Call& call, const Route& route) const = 0;

	protected:
		~Owner() = default;
	};

	// Begins to connect. `patience` is for the first attempt.
	Route(Owner& owner, Session& session, const ClientOptions& options, const RouterOptions& how, std::string name,
		Nanoseconds patience);
	~Route();

	// Takes a call, which waits if there is no connection.
	void start(Call& call);
	// Sends the calls that wait, or gives them back if their keys have other servers now.
	void submit_waiting();
	// The server is no member any more: calls under way may end, no further ones come.
	void leave();
	// True once such a route has neither calls nor a connection.
	bool ended() const { return ended_; }
	// Closes the connection and makes no other.
	void close();
	async::Task<void> until_closed();

	const std::string& name() const { return name_; }
	bool connected() const { return client_ != nullptr; }
	bool tried() const { return tried_; }  // the first connect has succeeded or failed
	// One sentence about the last connect that failed, or the last connection that was lost.
	const std::string& reason() const { return reason_; }
	Client* client() const { return client_.get(); }  // null: not connected
	// The sum over all connections.
	ClientCounters counters() const;
	std::uint64_t connects() const { return connects_; }
	std::uint64_t retries() const { return retries_; }  // operations that were sent again

private:
	friend class Running;
	Running keep_connected(Nanoseconds patience);
	Running retire(std::unique_ptr<Client> client);
	Running watch_departed();
	void submit(Call& call);
	void place_again(Call& call);
	void take_back(Call& call) override;
	// If the server has been silent for a second or more, the connection is given up.
	void expired(Call& call) override;
	void expire() override { submit_waiting(); }
	void sweep();

	Owner& owner_;
	Session& session_;
	const ClientOptions& options_;
	const RouterOptions how_;
	std::string name_;
	// Hello::client of its connections. Each route has its own, because each counts its changes
	// from 1 on, and one server may have several routes: by several names, or when it left and is
	// back.
	std::uint64_t id_;
	std::unique_ptr<Client> client_;
	Backoff backoff_;
	async::List<async::Waiter> waiting_;  // calls without a connection, or whose server is busy
	// Calls that are not done, the oldest first: changes by their order, and GETs.
	async::List<Call::Ordered> changes_, gets_;
	// Expires at the deadline of the oldest call, or before.
	struct Sweeper final : async::Timer {
		explicit Sweeper(Route& of) : route(of) {}
		void expire() override { route.sweep(); }
		Route& route;
	};
	Sweeper sweeper_{*this};
	std::uint64_t last_order_ = 0;
	bool tried_ = false, left_ = false, closing_ = false, ended_ = false;
	Nanoseconds departed_ = 0;  // the time of leave()
	std::string reason_;
	std::uint64_t connects_ = 0, retries_ = 0;
	ClientCounters retired_counters_;
	std::uint32_t retiring_ = 0;  // connections that are being closed
	async::List<async::Waiter> until_retired_;
	Coroutines coroutines_;
};

}  // namespace verbena::kv
