// SPDX-License-Identifier: Apache-2.0
// The engine's part in direct operations (docs/decisions/0036): whether there are any, the turns of
// a long one, and the end of a right. A verb that withdraws a right returns only when no peer can
// write under it any more.
#include <cstdlib>
#include <cstring>
#include <sched.h>

#include "nic/engine/engine.h"

namespace verbena::engine {

// post() gives a long direct operation this many turns of direct_bytes_max after the first.
constexpr int turns_at_post = 7;

// A peer that runs needs a few microseconds for an operation. One that was descheduled in the
// middle, or is stopped, may need any time, and its pages are taken away instead.
constexpr Nanoseconds withdrawal_patience = 2'000'000;

void Engine::begin_direct(bool allowed) {
	const char* const wanted = std::getenv("VERBENA_DIRECT");
	if (!allowed || (wanted && std::strcmp(wanted, "0") == 0)) return;
	adapter_.context().rights.attach(own_.rights());
	neighbours_.use_direct();
}

// A long direct operation waits for its next turn. It gets some of them at once, because in a
// process that is ARMED each would otherwise wake the progress thread. Other threads can take the
// lock between two turns. False: one has, and serves the doorbell of what is left.
bool Engine::take_turns(transport::QueuePair& qp) noexcept {
	for (int turn = 0; turn < turns_at_post && qp.blocked && qp.outlet && qp.outlet->peer_memory; ++turn) {
		lock_.unlock();
		if (!lock_.try_lock()) {
			ring_and_leave(qp);
			return false;
		}
		if (!adapter_.resume(*qp.outlet)) break;
	}
	return true;
}

bool Engine::await_direct(const std::function<bool(wire::DirectAccess)>& match) {
	const Nanoseconds give_up = monotonic_now() + withdrawal_patience;
	while (control([&](adapter::ChannelAdapter&) { return neighbours_.announces(match); })) {
		if (monotonic_now() > give_up) return false;
		sched_yield();
	}
	return true;
}

bool Engine::await_direct_locked(const std::function<bool(wire::DirectAccess)>& match) const {
	const Nanoseconds give_up = monotonic_now() + withdrawal_patience;
	while (neighbours_.announces(match)) {
		if (monotonic_now() > give_up) return false;
		sched_yield();
	}
	return true;
}

}  // namespace verbena::engine
