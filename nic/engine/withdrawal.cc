// The end of a right under which peers execute operations directly (docs/decisions/0036): a verb
// that withdraws one returns only when no peer can write under it any more.
#include <sched.h>

#include "nic/engine/engine.h"

namespace verbena::engine {

// A peer that runs needs a few microseconds for an operation. One that was descheduled in the
// middle, or is stopped, may need any time, and its pages are taken away instead.
constexpr Nanoseconds withdrawal_patience = 2'000'000;

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
