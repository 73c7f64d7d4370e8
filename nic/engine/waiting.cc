// SPDX-License-Identifier: Apache-2.0
// The engine's functions for threads that sleep until the NIC has work: the progress thread, and
// threads that block in a verb. Each function drives the engine once or several times, and computes
// the time that the thread may sleep.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "nic/engine/engine.h"
#include "nic/engine/priority.h"
#include "nic/engine/progress.h"
#include "nic/engine/waiting.h"

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
// While packets keep arriving, a thread that blocks in a verb takes signals after this many passes.
constexpr std::uint32_t busy_passes_between_sleeps = 64;
// A thread that blocks in a verb lets the progress thread sleep at least this long.
constexpr Nanoseconds background_pause_min = 10'000'000;
constexpr std::size_t kernel_mask_bytes = 8;  // the kernel's sigset_t, shorter than the C library's
// After a pass that took in many bytes from other hosts, the progress thread polls for this long
// before it sleeps. An idle processor takes about as long to wake, and a virtual one may take a
// millisecond.
constexpr Nanoseconds attention = 40'000;
// The longest sleep while a neighbour has ended and its link is not retired yet.
constexpr Nanoseconds mourning_pause = 25'000'000;

// True if a blocking read() would have gone on after the signal that just came, which is so if the
// signal's handler was installed with SA_RESTART. The signal's number is not known here, so the
// function returns true only if all handlers have SA_RESTART.
bool signals_restart() {
	for (int signal = 1; signal <= SIGRTMAX; ++signal) {
		struct sigaction action;
		if (signal == SIGSEGV || signal == SIGBUS || sigaction(signal, nullptr, &action) != 0) continue;
		const bool handled =
			(action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
		if (handled && !(action.sa_flags & SA_RESTART)) return false;
	}
	return true;
}

}  // namespace

namespace detail {

void begin(BlockingCall& call) {
	pthread_testcancel();  // a pending cancellation need not wait for the sleep
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.own_cancellation);
	sigset_t held;
	sigfillset(&held);  // without those that the C library uses itself, as in setuid()
	for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&held, signal);
	sigemptyset(&call.own_mask);
	// The system call itself, because pthread_sigmask() is interposed (nic/verbs/signals.cc).
	call.signals_held = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, &call.own_mask, kernel_mask_bytes) == 0;
}

void end(BlockingCall& call) {
	const int before = errno;
	if (call.signals_held) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &call.own_mask, nullptr, kernel_mask_bytes);
	pthread_setcancelstate(call.own_cancellation, nullptr);
	errno = before;
}

// The system calls below either swap the signal mask for the time of the sleep, or are made with
// the thread's own mask.
void sleep(BlockingCall& call) {
	using Sleep = BlockingCall::Sleep;
	const sigset_t* const mask = call.signals_held ? &call.own_mask : nullptr;
	call.readable = call.rung = false;
	call.slept = true;
	int count = 0;
	int disabled = PTHREAD_CANCEL_DISABLE;
	if (call.sleep == Sleep::epoll) {
		epoll_event events[2];
		pthread_setcancelstate(call.own_cancellation, &disabled);
		count = EpollSet::wait_interruptibly(call.epoll, events, call.timeout, mask);
		call.error = count < 0 ? errno : 0;
		for (int i = 0; i < count; ++i) (events[i].data.fd == call.fd ? call.readable : call.rung) = true;
	} else if (call.sleep == Sleep::poll) {
		pollfd descriptors[] = {{call.fd, POLLIN, 0}, {call.doorbell, POLLIN, 0}};
		const timespec limit = to_timespec(call.timeout);
		pthread_setcancelstate(call.own_cancellation, &disabled);
		count = ppoll(descriptors, 2, call.timeout == never ? nullptr : &limit, mask);
		call.error = count < 0 ? errno : 0;
		call.readable = count > 0 && descriptors[0].revents;
		call.rung = count > 0 && descriptors[1].revents;
	} else {
		const timespec limit = to_timespec(call.timeout);
		syscall(SYS_futex, call.word, FUTEX_WAIT_PRIVATE, call.seen, &limit, nullptr, 0);
		call.error = 0;
		// The futex call neither takes a mask nor is it a cancellation point.
		pthread_setcancelstate(call.own_cancellation, &disabled);
		sigset_t held;
		if (mask) syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, &held, kernel_mask_bytes);
		pthread_testcancel();
		if (mask) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &held, nullptr, kernel_mask_bytes);
	}
	pthread_setcancelstate(disabled, nullptr);
}

}  // namespace detail

void Engine::correct_sleeper() {
	Nanoseconds due = std::min(adapter_.poll_timeout(), remotes_.upkeep_due());
	if (waits_for_room()) due = std::min(due, adapter_.context().now + room_pause);
	if (due >= sleep_deadline_) return;
	sleep_deadline_ = due;
	progress_->wake();
}

Nanoseconds Engine::idle_time() {
	refresh_clock();
	const Nanoseconds now = adapter_.context().now;
	const Nanoseconds timer = adapter_.poll_timeout();
	Nanoseconds sleep = timer == never ? never : timer > now ? timer - now : 0;
	if (waits_for_room() || remotes_.silent()) sleep = std::min(sleep, room_pause);
	// Nothing wakes a thread for packets that wait for room in a socket, or for another round of
	// finish().
	if (std::exchange(no_memory_, false)) sleep = std::min(sleep, room_pause);
	if (adapter_.context().touched || remotes_.blocked()) sleep = std::min(sleep, socket_full_pause);
	return sleep;
}

// Whether the program's thread was on a processor for half of the time since the last call.
bool Engine::driver_ran(Nanoseconds now) {
	const pid_t driver = driver_.load(std::memory_order_relaxed);
	const Nanoseconds ran = driver != 0 ? processor_time(driver) : 0;
	const bool result = ran > driver_ran_ && 2 * (ran - driver_ran_) >= now - driver_seen_;
	driver_ran_ = ran;
	driver_seen_ = now;
	return result;
}

void Engine::arm_wakes() {
	own_.arm();
	remotes_.wake_again();
}

// Learns from a round of the progress thread whether the peers of this host should kick for each
// request (watch.h).
void Engine::watch_requests(bool kicked, bool moved, bool others_poll) {
	const Nanoseconds now = adapter_.context().now;
	polled_since_kick_ |= others_poll;
	if (!kicked || own_.armed()) return request_watch_.expire(now);
	if (request_watch_.watching()) request_watch_.wake(moved, now);
	else if (moved && polled_since_kick_) request_watch_.needed_kick(now);
	polled_since_kick_ = false;
}

// While requests are watched: makes the peers kick for the next one. Returns true if one came just
// before they could know.
bool Engine::asks_for_requests() {
	if (!request_watch_.watching()) {
		own_.stop_asking();
		return false;
	}
	own_.ask_for_requests();
	const bool moved = pass();
	finish(acks_of_tick());
	return moved;
}

// Whether acknowledgements may wait after a pass of the progress thread.
adapter::Acks Engine::acks_of_tick() {
	return own_.armed() ? adapter::Acks::leave : ack_delay_.after_tick(had_requests_, adapter_.context().now);
}

// While packets do not wake this thread, a tick after which the program has made passes reads
// nothing: the packets that have arrived are the program's. If they still wait at the next tick,
// and the program has made no pass, it may be one that never reads them (watch.h).
Nanoseconds Engine::drive_in_background(WokenBy woken) {
	lock_.lock();
	refresh_clock();
	const Nanoseconds now = adapter_.context().now;
	if (woken.packets) remotes_.note_wake();
	const bool others_poll = program_polls_.begin_round(passes_);
	if (others_poll) last_moved_ = now;
	watchdog_ = others_poll ? std::clamp(2 * watchdog_, watchdog_first, watchdog_longest) : watchdog_first;
	const bool leaves_packets =
		others_poll && remotes_.has_paths() && !packet_watch_.watching() && !woken.kick && !own_.armed();
	bool moved = had_requests_ = had_silent_writes_ = false;
	if (!leaves_packets) {
		remotes_.look_at_sockets();
		moved = pass();
	}
	finish(acks_of_tick());
	retire_unused_outlets();
	if (packet_watch_.watching() && woken.packets) packet_watch_.wake(moved, now);
	if (!woken.packets && !woken.kick) {
		const bool late = driver_ran(now) && moved && !others_poll;
		if (!packet_watch_.watching() && remotes_.has_paths()) packet_watch_.tick(late, now);
		if (!own_.armed()) request_watch_.tick(late && had_silent_writes_, now);
	}
	watch_requests(woken.kick, moved && !program_polls_.polls_now(), others_poll);
	Nanoseconds sleep = watchdog_;
	if ((!others_poll && !program_polls_.polls_now()) || own_.armed()) {
		// No other thread drives the engine. Go on while there is work, then make the process
		// ARMED, so that peers kick, and sleep.
		if (remotes_.took_much()) attentive_until_ = now + attention;
		if (moved || now < attentive_until_) {
			sleep = 0;
		} else if (own_.armed() || now - last_moved_ >= idle_until_armed) {
			arm_wakes();
			moved = pass();
			finish();
			sleep = moved ? 0 : idle_time();
		} else {
			sleep = std::min(watchdog_longest, std::max(watchdog_first, now - last_moved_));
		}
	}
	if (packet_watch_.watching()) remotes_.wake_again();
	if (asks_for_requests()) sleep = 0;
	if (ack_delay_.waiting()) sleep = std::min(sleep, ack_delay_.due() - now);
	if (neighbours_.mourns()) sleep = std::min(sleep, mourning_pause);
	if (const Nanoseconds due = remotes_.upkeep_due(); due != never) sleep = std::min(sleep, std::max(due, now) - now);
	sleep_deadline_ = sleep == never ? never : now + sleep;
	program_polls_.end_round(passes_);
	leave();
	return sleep;
}

namespace {

bool is_readable(int fd) {
	pollfd descriptor{fd, POLLIN, 0};
	return poll(&descriptor, 1, 0) > 0;
}

}  // namespace

// Every round ends with the progress thread due to wake at the next timer, so that the thread can
// vanish from its sleep.
Engine::Wait Engine::drive_until_readable(WaitSet& waiting, BlockingCall& call) {
	if (std::exchange(call.slept, false)) {
		if (call.error && (call.error != EINTR || !signals_restart())) return errno = call.error, Wait::failed;
		if (call.rung) own_.drain();
		// The ring that this thread took is for no other thread any more.
		if (call.rung && call.readable) control([this](adapter::ChannelAdapter&) { return pass(); });
		if (call.readable) return Wait::ready;
	}
	EpollSet* const set = progress_->prepare(waiting);
	for (std::uint32_t busy_passes = 1;; ++busy_passes) {
		lock_.lock();
		arm_wakes();
		const bool moved = pass();
		finish();
		if (moved && busy_passes % busy_passes_between_sleeps != 0) {
			leave();
			if (is_readable(waiting.fd())) return Wait::ready;
			continue;
		}
		const Nanoseconds sleep = moved ? 0 : idle_time();
		const Nanoseconds now = adapter_.context().now;
		// Pauses that are shorter matter only to a thread that drives the engine.
		const Nanoseconds due = sleep == never ? never : now + std::max(sleep, background_pause_min);
		const bool progress_sleeps_too_long = due < sleep_deadline_;
		if (progress_sleeps_too_long) sleep_deadline_ = due;
		leave();
		if (progress_sleeps_too_long) progress_->wake();

		call.sleep = set ? BlockingCall::Sleep::epoll : BlockingCall::Sleep::poll;
		call.epoll = set ? set->fd() : -1;
		call.fd = waiting.fd();
		call.doorbell = own_.doorbell();
		call.timeout = sleep;
		return Wait::asleep;
	}
}

}  // namespace verbena::engine
