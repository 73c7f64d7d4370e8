// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/progress.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "nic/engine/boundary.h"
#include "nic/engine/eventfd.h"
#include "nic/engine/priority.h"
#include "nic/engine/stranger_share.h"
#include "nic/engine/unreachable.h"
#include "nic/status/door.h"

namespace verbena::engine {

namespace {

constexpr Nanoseconds greeting_pause = 100'000'000;  // while a peer is connecting
constexpr Nanoseconds greeting_patience =
	static_cast<Nanoseconds>(std::chrono::nanoseconds(PendingPeer::patience).count());
// The program's first passes are made within this time, so the process is not ARMED before.
constexpr Nanoseconds first_sleep = 2'000'000;
// One look at a listening socket accepts at most this many peers of this user, so that connecting
// peers cannot starve passes. Strangers are refused without the engine's lock.
constexpr int accepts_max = 16, refusals_max = 160;
// A listening socket at which accepting fails, because no descriptor is left, rests this long.
constexpr Nanoseconds failed_accept_pause = 20'000'000;
// One look at the door answers at most this many questions.
constexpr int answers_max = 4;
// The socket of a stranger that kicks without need is left alone this long.
constexpr Nanoseconds noise_pause = 1'000'000;
// Reading all interfaces costs up to a millisecond, so on a host whose interfaces change all the
// time they are read this often; longer after a read that failed.
constexpr Nanoseconds report_pause = 10'000'000, failed_report_pause = 100'000'000;
// A round that failed for lack of memory is repeated after this pause.
constexpr Nanoseconds no_memory_pause = 1'000'000;
// The program may have become a real-time one.
constexpr std::uint32_t rounds_between_priorities = 16;

}  // namespace

int Progress::start() {
	woken_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	bell_ = own_.doorbell();
	if (!woken_ || !epoll_.add_exclusive(bell_) || !epoll_.add(woken_.get())) return errno;
	// Without the subscription the interfaces are read when a program asks (nic/verbs/process.cc).
	if (auto watch = InterfaceWatch::open(); watch && epoll_.add(watch->fd())) watch_ = std::move(*watch);
	// Without a door the process runs as well, and no tool sees it.
	if (auto door = door::open(status::door_kind, geteuid()); door && epoll_.add(door->get())) door_ = std::move(*door);
	second_bell_ = Descriptor(fcntl(bell_, F_DUPFD_CLOEXEC, 0));
	auto thread = Thread::start("verbena", [this] { run(); });
	if (!thread) return thread.error();
	thread_ = std::move(*thread);
	return 0;
}

Progress::~Progress() {
	if (!thread_.joinable()) return;
	stopping_.store(true, std::memory_order_release);
	wake();
	thread_.join();
}

void Progress::abandon_after_fork() {
	thread_.forget();
	greetings_.clear();
	flooded_.clear();
	woken_ = Descriptor();
	second_bell_ = Descriptor();
	door_ = Descriptor();
	watch_.reset();
}

void Progress::wake() { signal_eventfd(woken_.get()); }

EpollSet* Progress::prepare(WaitSet& waiting) {
	const std::lock_guard one_at_a_time(waiting.mutex_);
	if (waiting.set_) return waiting.set_.get();
	if (!second_bell_) return nullptr;
	auto set = EpollSet::create();
	if (!set || !set->add(waiting.fd())) return nullptr;
	std::unique_ptr<EpollSet> kept(new (std::nothrow) EpollSet(std::move(*set)));
	if (!kept) return nullptr;
	const std::lock_guard lock(bell_mutex_);
	if (!kept->add_exclusive(own_.doorbell())) return nullptr;
	// Joins the end of the queue before it leaves its old place, so that it is never missing.
	const int at_the_end = bell_ == own_.doorbell() ? second_bell_.get() : own_.doorbell();
	if (!epoll_.add_exclusive(at_the_end)) return nullptr;
	epoll_.remove(std::exchange(bell_, at_the_end));
	waiting.set_ = std::move(kept);
	return waiting.set_.get();
}

void Progress::run() {
	own_.page().progress_tid.store(gettid(), std::memory_order_relaxed);
	run_before(getpid());
	sleep_ = first_sleep;
	for (;;) {
		std::array<epoll_event, 32> events;
		const auto woken_by = epoll_.wait(events, sleep_);
		if (stopping_.load(std::memory_order_acquire)) return;
		// Without memory, what was not done is done in a later round.
		sleep_ = no_memory_pause;
		woken_by_ = {};
		for (const epoll_event& event : woken_by) attempt([&] { handle(event.data.fd); });
		attempt([&] { round(); });
	}
}

void Progress::round() {
	expire_greetings();
	if (!flooded_.empty()) [[unlikely]]
		attempt([this] { visit_flooded(monotonic_now()); });
	attempt([this] { report_interfaces(); });
	if (++rounds_ % rounds_between_priorities == 0) run_before(engine_.driver());
	sleep_ = std::min(engine_.drive_in_background(woken_by_), next_report());
	if (!greetings_.empty()) sleep_ = std::min(sleep_, greeting_pause);
	if (!flooded_.empty()) [[unlikely]]
		sleep_ = std::min(sleep_, until_next_visit());
}

void Progress::handle(int fd) {
	if (fd == EpollSet::no_fd) {
		woken_by_.packets = true;
		return;
	}
	if (fd == woken_.get()) {
		drain_eventfd(fd);
		return;
	}
	if (fd == own_.doorbell() || fd == second_bell_.get()) {
		woken_by_.kick = true;
		return own_.drain();
	}
	if (watch_ && fd == watch_->fd()) {
		unreported_ |= watch_->take(links_changed_);
		return;
	}
	if (fd == door_.get()) return answer_at_door();
	if (const auto greeting = greetings_.find(fd); greeting != greetings_.end()) return greet(greeting);
	enum class Socket { listener, other, noisy };
	const Socket socket = engine_.control([&](adapter::ChannelAdapter& adapter) {
		if (engine_.neighbours().listens_at(fd)) return Socket::listener;
		return engine_.neighbours().handle_readable(fd, adapter.context().now) ? Socket::other : Socket::noisy;
	});
	if (socket == Socket::listener) accept_from(fd);
	if (socket != Socket::noisy) return;
	flooded_.emplace(fd, monotonic_now() + noise_pause);
	epoll_.remove(fd);
}

void Progress::accept_from(int listener) {
	const Directory directory = Directory::of_this_user();
	std::uint32_t strangers = 0;
	bool fails = false;
	for (int accepted = 0; accepted < accepts_max && strangers < refusals_max;) {
		auto peer = PendingPeer::accept(listener, own_.identity(), directory);
		if (!peer && peer.error() == EPERM) {
			++strangers;
			continue;
		}
		if (!peer) {
			explain_no_accept(peer.error());
			fails = peer.error() != EAGAIN;
			break;
		}
		if (peer->is_stranger()) {
			++strangers;
			if (!takes_stranger(peer->user())) continue;
		}
		++accepted;
		const int fd = peer->fd();
		const auto at = greetings_.emplace(fd, Pending{std::move(*peer), monotonic_now() + greeting_patience}).first;
		if (!epoll_.add(fd)) greetings_.erase(at);  // closes the connection, which the peer sees
	}
	rest_from(listener, strangers, fails);
}

// After a visit to the listening socket that found `strangers`: leaves it alone for a while if they
// are many, or if accepting fails, because the socket stays readable then.
void Progress::rest_from(int listener, std::uint32_t strangers, bool fails) {
	const Nanoseconds now = monotonic_now();
	const Nanoseconds flooded = flood_guard_.pause_after(strangers, flooded_.size(), now);
	if (const Nanoseconds pause = std::max(flooded, fails ? failed_accept_pause : 0)) {
		flooded_.emplace(listener, now + pause);
		epoll_.remove(listener);
	}
}

void Progress::answer_at_door() {
	std::uint32_t strangers = 0;
	bool fails = false;
	for (int answered = 0; answered < answers_max && strangers < refusals_max;) {
		const auto visitor = door::next_visitor(door_.get());
		if (!visitor && visitor.error() == EPERM) {
			++strangers;
			continue;
		}
		if (!visitor) {
			fails = visitor.error() != EAGAIN;
			break;
		}
		++answered;
		static_cast<void>(door::answer(*visitor, status_(engine_)));  // the visitor sees it
	}
	rest_from(door_.get(), strangers, fails);
}

bool Progress::takes_stranger(uid_t user) const {
	Taken taken{};
	for (const auto& [fd, greeting] : greetings_)
		if (greeting.peer.is_stranger()) ++(greeting.peer.user() == user ? taken.by_the_user : taken.by_others);
	return has_room_for_stranger(taken, stranger_greetings_max);
}

// The number of a socket that was closed meanwhile may belong to another descriptor now.
void Progress::visit_flooded(Nanoseconds now) {
	std::vector<int> due;
	for (const auto& [listener, when] : flooded_)
		if (when <= now) due.push_back(listener);
	for (const int listener : due) {
		flooded_.erase(listener);
		const auto [listens, hears] = engine_.control([&](adapter::ChannelAdapter&) {
			const Neighbours& neighbours = engine_.neighbours();
			return std::pair(neighbours.listens_at(listener), neighbours.hears_stranger_at(listener));
		});
		const bool is_door = listener == door_.get();
		if (!listens && !hears && !is_door) continue;
		if (is_door) answer_at_door();
		else if (listens) accept_from(listener);
		if (flooded_.contains(listener) || epoll_.add(listener) || errno == EEXIST) continue;
		flooded_.emplace(listener, now + no_memory_pause);
	}
}

// Under the engine's lock from the look-up of the token until the link is registered, because the
// peer may send as soon as it has our WELCOME.
void Progress::greet(std::map<int, Pending>::iterator greeting) {
	const uid_t user = greeting->second.peer.user();
	const bool is_stranger = greeting->second.peer.is_stranger();
	const auto step = engine_.control([&](adapter::ChannelAdapter&) {
		Neighbours& neighbours = engine_.neighbours();
		const auto step =
			greeting->second.peer.on_readable([&](uid_t, std::uint64_t token) -> std::expected<bool, int> {
				const bool linked = neighbours.linked(user, token);
				if (!linked && is_stranger && !neighbours.has_room_for(user)) return std::unexpected(EUSERS);
				return linked;
			});
		if (step == PendingPeer::Step::again) return step;
		epoll_.remove(greeting->first);
		if (step == PendingPeer::Step::failed) return step;
		Peer peer = greeting->second.peer.take();
		if (!peer.is_self && !peer.already_linked) neighbours.add(std::move(peer));
		return step;
	});
	if (step == PendingPeer::Step::failed && greeting->second.peer.error() == EUSERS) explain_no_share(user);
	if (step != PendingPeer::Step::again) greetings_.erase(greeting);
}

void Progress::expire_greetings() {
	if (greetings_.empty()) return;
	const Nanoseconds now = monotonic_now();
	std::erase_if(greetings_, [&](const auto& greeting) { return greeting.second.give_up < now; });
}

void Progress::report_interfaces() {
	if (!unreported_) return;
	const Nanoseconds now = monotonic_now();
	if (now < report_after_) return;
	const bool read = interfaces_changed_(links_changed_);
	links_changed_.clear();
	unreported_ = !read;
	report_after_ = now + (read ? report_pause : failed_report_pause);
}

Nanoseconds Progress::until_next_visit() const {
	const Nanoseconds now = monotonic_now();
	const Nanoseconds next =
		std::ranges::min_element(flooded_, {}, [](const auto& each) { return each.second; })->second;
	return next > now ? next - now : 0;
}

Nanoseconds Progress::next_report() const {
	if (!unreported_) return never;
	const Nanoseconds now = monotonic_now();
	return report_after_ > now ? report_after_ - now : 0;
}

}  // namespace verbena::engine
