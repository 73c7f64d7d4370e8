// The engine's functions for threads that sleep until the NIC has work: the progress thread, and
// threads that block in a verb. Each function drives the engine once or several times, and computes
// the time that the thread may sleep.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>

#include "nic/engine/engine.h"
#include "nic/engine/progress.h"

namespace verbena::engine {

namespace {

// A consumer that makes room in a ring kicks the producer; this pause ends the producer's sleep if
// the kick comes late.
constexpr Nanoseconds room_pause = 1'000'000;
// The longest sleep while packets wait for room in a socket.
constexpr Nanoseconds socket_full_pause = 100'000;
// The progress thread's sleep while the program polls. It doubles each time, from the first value
// to the longest.
constexpr Nanoseconds watchdog_first = 200'000, watchdog_longest = 1'000'000;
// The process becomes ARMED when no thread but the progress thread has made a pass for this long.
constexpr Nanoseconds idle_until_armed = 2'000'000;
// The longest sleep while a neighbour has ended and its link is not retired yet.
constexpr Nanoseconds mourning_pause = 25'000'000;

// True if a blocking read() would have gone on after the signal that just came, which is so if the
// signal's handler was installed with SA_RESTART. The signal's number is not known here, so the
// function returns true only if all handlers have SA_RESTART.
bool signals_restart() {
	for (int signal = 1; signal < SIGRTMAX; ++signal) {
		struct sigaction action;
		if (signal == SIGSEGV || signal == SIGBUS || sigaction(signal, nullptr, &action) != 0) continue;
		const bool handled =
			(action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
		if (handled && !(action.sa_flags & SA_RESTART)) return false;
	}
	return true;
}

}  // namespace

void Engine::correct_sleeper() {
	Nanoseconds due = adapter_.poll_timeout();
	if (waits_for_room()) due = std::min(due, adapter_.context().now + room_pause);
	if (due >= sleep_deadline_) return;
	sleep_deadline_ = due;
	own_.ring();
}

Nanoseconds Engine::idle_time() {
	refresh_clock();
	const Nanoseconds now = adapter_.context().now;
	const Nanoseconds timer = adapter_.poll_timeout();
	Nanoseconds sleep = timer == never ? never : timer > now ? timer - now : 0;
	if (waits_for_room()) sleep = std::min(sleep, room_pause);
	// Nothing wakes a thread for packets that wait for room in a socket, or for another round of
	// finish().
	if (adapter_.context().touched || remotes_.blocked()) sleep = std::min(sleep, socket_full_pause);
	return sleep;
}

Nanoseconds Engine::drive_in_background() {
	lock_.lock();
	refresh_clock();
	const Nanoseconds now = adapter_.context().now;
	const bool others_poll = passes_ != passes_seen_;
	if (others_poll) last_moved_ = now;
	watchdog_ = others_poll ? std::clamp(2 * watchdog_, watchdog_first, watchdog_longest) : watchdog_first;
	bool moved = pass();
	finish();
	retire_dead_neighbours();
	Nanoseconds sleep = watchdog_;
	if (!others_poll || own_.armed()) {
		// No other thread drives the engine. Go on while there is work, then make the process
		// ARMED, so that peers kick, and sleep.
		if (moved) {
			sleep = 0;
		} else if (own_.armed() || now - last_moved_ >= idle_until_armed) {
			own_.arm();
			moved = pass();
			finish();
			sleep = moved ? 0 : idle_time();
		} else {
			sleep = std::min(watchdog_longest, std::max(watchdog_first, now - last_moved_));
		}
	}
	if (neighbours_.mourns()) sleep = std::min(sleep, mourning_pause);
	sleep_deadline_ = background_deadline_ = sleep == never ? never : now + sleep;
	passes_seen_ = passes_;
	leave();
	return sleep;
}

bool Engine::drive_until_readable(int fd) {
	pollfd descriptors[] = {{fd, POLLIN, 0}, {own_.doorbell(), POLLIN, 0}};
	progress_->hand_over();
	bool readable = false;
	for (;;) {
		lock_.lock();
		own_.arm();
		const bool moved = pass();
		finish();
		const Nanoseconds sleep = moved ? 0 : idle_time();
		sleep_deadline_ = sleep == never ? never : adapter_.context().now + sleep;
		leave();

		const timespec limit = to_timespec(sleep);
		const int ready = ppoll(descriptors, 2, sleep == never ? nullptr : &limit, nullptr);
		if (ready < 0 && errno == EINTR && !signals_restart()) break;
		if (ready > 0 && descriptors[0].revents) {
			readable = true;
			break;
		}
		if (ready > 0 && descriptors[1].revents) own_.drain();
	}
	progress_->take_back();
	lock_.lock();
	// finish() wakes the progress thread if a timer is due before that thread would wake.
	sleep_deadline_ = background_deadline_;
	finish();
	leave();
	if (!readable) errno = EINTR;
	return readable;
}

}  // namespace verbena::engine
