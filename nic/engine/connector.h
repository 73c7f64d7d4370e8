// SPDX-License-Identifier: Apache-2.0
// A thread that connects to other processes of this host, on behalf of a thread that must not
// block.
//
// A packet for another process arrives where the engine's lock is held, and connecting blocks: the
// other side may at this moment be connecting to us. So the packet waits, and this thread connects.
//
// Threads: request() and refused() under the engine's lock. `done` is called on the connecting
//   thread, under the engine's lock.
// Lifetime: the destructor waits for an attempt under way. The thread starts with the first
//   request.
#pragma once

#include <condition_variable>
#include <expected>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/engine/rendezvous.h"
#include "nic/engine/thread.h"
#include "nic/transport/outlet.h"

namespace verbena::engine {

class Engine;

class Connector {
public:
	// The outcome of one attempt: an outlet, or an errno value of Engine::neighbour_outlet().
	using Done = std::function<void(adapter::ChannelAdapter&, Place, std::expected<transport::Outlet*, int>)>;

	Connector(Engine& engine, Done done);
	~Connector();
	Connector(const Connector&) = delete;
	Connector& operator=(const Connector&) = delete;

	// Connects to the owner of `place`, unless an attempt is under way already. False: no attempt
	// is made, because too many are queued, because one to this block of numbers failed within the
	// last second, or because the process may not have another thread.
	bool request(Place place, Nanoseconds now);
	// The last attempt found that no process owns the place.
	bool refused(Place place) const;

	// In the child of a fork, which has no such thread.
	void abandon_after_fork();

private:
	struct Failure {
		Nanoseconds when;
		int error;
	};

	void run();
	void connect(Place);

	Engine& engine_;
	Done done_;
	std::map<Place, Failure> failed_;  // under the engine's lock

	std::mutex mutex_;  // guards what follows
	std::condition_variable changed_;
	std::vector<Place> requested_;
	bool stopping_ = false;
	Thread thread_;
};

}  // namespace verbena::engine
