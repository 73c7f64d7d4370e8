// Threads that block: what the engine needs of them, and for how long it needs nothing.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <unistd.h>

#include "nic/engine/engine.h"
#include "nic/engine/progress.h"

namespace verbena::engine {

namespace {

constexpr Nanoseconds room_pause = 1'000'000;  // should the kick of a consumer that makes room come late
constexpr Nanoseconds socket_full_pause = 100'000;

// Would a blocking system call have gone on after the signal that just came? It does if the handler was installed with
// SA_RESTART; which signal it was is not known, so the program is asked about all of them.
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
	if (due >= thread_deadline_) return;
	thread_deadline_ = due;
	progress_->nudge();
}

Nanoseconds Engine::idle_time() {
	refresh_clock();
	const Nanoseconds now = adapter_.context().now;
	const Nanoseconds timer = adapter_.poll_timeout();
	Nanoseconds sleep = timer == never ? never : timer > now ? timer - now : 0;
	if (waits_for_room()) sleep = std::min(sleep, room_pause);
	// What waits for room in a socket, or for a next round, waits for nobody to wake us.
	if (adapter_.context().touched || remotes_.blocked()) sleep = std::min(sleep, socket_full_pause);
	return sleep;
}

bool Engine::drive_until_readable(int fd) {
	pollfd descriptors[] = {{fd, POLLIN, 0}, {doorbell_.get(), POLLIN, 0}};
	progress_->hand_over();
	bool readable = false;
	for (;;) {
		lock_.lock();
		progress_->set_armed();
		const bool moved = pass();
		finish();
		const Nanoseconds sleep = moved ? 0 : idle_time();
		thread_deadline_ = sleep == never ? never : adapter_.context().now + sleep;
		leave();

		const timespec limit{static_cast<time_t>(sleep / 1'000'000'000), static_cast<long>(sleep % 1'000'000'000)};
		const int ready = ppoll(descriptors, 2, sleep == never ? nullptr : &limit, nullptr);
		if (ready < 0 && errno == EINTR && !signals_restart()) break;
		if (ready > 0 && descriptors[0].revents) {
			readable = true;
			break;
		}
		if (ready > 0 && descriptors[1].revents) {
			std::uint64_t count;
			[[maybe_unused]] const ssize_t n = read(doorbell_.get(), &count, sizeof count);
		}
	}
	progress_->take_back();
	lock_.lock();
	thread_deadline_ = progress_deadline_;  // if there are timers that are due before, the progress thread is told now
	finish();
	leave();
	if (!readable) errno = EINTR;
	return readable;
}

}  // namespace verbena::engine
