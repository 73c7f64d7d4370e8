#include "nic/engine/progress.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::engine {

namespace {

constexpr Nanoseconds watchdog_first = 200'000, watchdog_longest = 1'000'000;
// What was sent to a process that has ended fails this much later. On a wire it would take some ACK timeouts, and
// programs rely on it: many exit as soon as they have all they wait for, while their peer's last requests are still
// under way.
constexpr Nanoseconds mourning = 100'000'000;
constexpr Nanoseconds idle_until_armed = 2'000'000;  // without a pass

timespec to_timespec(Nanoseconds ns) {
	return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

Progress::Progress(Engine& engine) : engine_(engine) {}

int Progress::start() {
	epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
	stop_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (!epoll_ || !stop_ || !add(engine_.doorbell_.get()) || !add(stop_.get())) return errno;

	// The program's signals are the program's; but its fault handler must reach guarded copies in this thread, too.
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	thread_ = std::thread([this] { run(); });
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	pthread_setname_np(thread_.native_handle(), "verbena");
	return 0;
}

Progress::~Progress() {
	if (!thread_.joinable()) return;
	const std::uint64_t one = 1;
	[[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
	thread_.join();
}

bool Progress::add(int fd) {
	epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
	return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Progress::listen(int listener) { add(listener); }

void Progress::watch(const Link& link) {
	add(link.peer().socket.get());
	if (link.peer().pidfd) add(link.peer().pidfd.get());
}

void Progress::forget(const Link& link) {
	for (const Descriptor* fd : {&link.peer().socket, &link.peer().pidfd})
		if (*fd) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd->get(), nullptr);
}

void Progress::watch(const link::UdpLink& udp) {
	udp_fd_ = udp.ready_fd();
	add(udp_fd_);
}

void Progress::abandon_after_fork() {
	thread_.detach();
	greetings_.clear();
	epoll_ = Descriptor();
	stop_ = Descriptor();
}

void Progress::set_armed() {
	std::atomic<std::uint32_t>& epoch = engine_.page_.object->armed_epoch;
	// Odd before and after: a new epoch tells peers that their last kick was used up.
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) | 1, std::memory_order_seq_cst);
	std::atomic_thread_fence(std::memory_order_seq_cst);  // the rings are read after peers can see it
}

void Progress::program_polls() {
	std::atomic<std::uint32_t>& epoch = engine_.page_.object->armed_epoch;
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) & ~1u, std::memory_order_release);
	nudge();  // the watchdog must run while peers do not kick
}

void Progress::nudge() {
	const std::uint64_t one = 1;
	[[maybe_unused]] const ssize_t written = write(engine_.doorbell_.get(), &one, sizeof one);
}

void Progress::hand_over() {
	const std::lock_guard lock(handed_over_mutex_);
	if (handed_over_++ == 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, engine_.doorbell_.get(), nullptr);
}

void Progress::take_back() {
	const std::lock_guard lock(handed_over_mutex_);
	if (--handed_over_ == 0) add(engine_.doorbell_.get());
}

void Progress::run() {
	engine_.page_.object->progress_tid.store(gettid(), std::memory_order_relaxed);
	Nanoseconds sleep = idle_until_armed;
	for (;;) {
		std::array<epoll_event, 32> events;
		const timespec limit = to_timespec(sleep);
		const long n = syscall(SYS_epoll_pwait2, epoll_.get(), events.data(), static_cast<int>(events.size()),
			sleep == never ? nullptr : &limit, nullptr, 0);
		for (long i = 0; i < n; ++i) {
			if (events[i].data.fd == stop_.get()) return;
			handle(events[i].data.fd);
		}
		expire_greetings();
		bury_due();
		sleep = work();
		if (!dying_.empty()) sleep = std::min(sleep, mourning / 4);
		if (!greetings_.empty()) sleep = std::min<Nanoseconds>(sleep, 100'000'000);
	}
}

Nanoseconds Progress::work() {
	Engine& engine = engine_;
	engine.lock_.lock();
	engine.refresh_clock();
	const Nanoseconds now = engine.adapter_.context().now;
	const bool others_poll = engine.passes_ != passes_seen_;
	if (others_poll) last_moved_ = now;
	watchdog_ = others_poll ? std::clamp(2 * watchdog_, watchdog_first, watchdog_longest) : watchdog_first;
	bool moved = engine.pass();
	engine.finish();
	engine.drop_broken_links();
	engine.reap();
	Nanoseconds sleep = watchdog_;
	if (!others_poll || engine.page_.object->armed()) {
		// Nobody else drives the engine. Go on while there is work, then sleep where a kick is needed to wake.
		if (moved) {
			sleep = 0;
		} else if (engine.page_.object->armed() || now - last_moved_ >= idle_until_armed) {
			set_armed();
			moved = engine.pass();
			engine.finish();
			sleep = moved ? 0 : engine.idle_time();
		} else {
			sleep = std::min(watchdog_longest, std::max(watchdog_first, now - last_moved_));
		}
	}
	engine.thread_deadline_ = engine.progress_deadline_ = sleep == never ? never : now + sleep;
	passes_seen_ = engine.passes_;
	engine.leave();
	return sleep;
}

void Progress::handle(int fd) {
	if (fd == engine_.doorbell_.get()) {
		std::uint64_t count;
		[[maybe_unused]] const ssize_t n = read(fd, &count, sizeof count);
		return;
	}
	if (fd == udp_fd_) return;  // the pass that follows reads it
	if (const auto greeting = greetings_.find(fd); greeting != greetings_.end()) return greet(greeting);
	bool is_listener = false;
	engine_.lock_.lock();
	for (const BlockName& block : engine_.blocks_) is_listener |= block.listener.get() == fd;
	for (const auto& [service, listener] : engine_.services_) is_listener |= listener.get() == fd;
	engine_.leave();
	if (is_listener) accept_from(fd);
	else bury(fd);
}

void Progress::accept_from(int listener) {
	for (int i = 0; i < 16; ++i) {
		auto peer = PendingPeer::accept(listener, engine_.identity_, geteuid());
		if (!peer) {
			if (peer.error() == EPERM) continue;
			return;
		}
		const int fd = peer->fd();
		greetings_.emplace(fd,
			Pending{std::move(*peer),
				monotonic_now() + static_cast<Nanoseconds>(std::chrono::nanoseconds(PendingPeer::patience).count())});
		add(fd);
	}
}

// Under the engine's lock from the look at the table to the link's place in it: the peer may act on our WELCOME at
// once.
void Progress::greet(std::map<int, Pending>::iterator greeting) {
	const auto step = engine_.control([&](adapter::ChannelAdapter&) {
		const auto linked = [&](std::uint64_t token) { return engine_.link_by_token_.contains(token); };
		const auto now = greeting->second.peer.on_readable(linked);
		if (now == PendingPeer::Step::again) return now;
		epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, greeting->first, nullptr);
		if (now == PendingPeer::Step::failed) return now;
		Peer peer = greeting->second.peer.take();
		if (!peer.is_self && !peer.already_linked) engine_.keep(std::make_unique<Link>(std::move(peer)));
		return now;
	});
	if (step != PendingPeer::Step::again) greetings_.erase(greeting);
}

void Progress::expire_greetings() {
	if (greetings_.empty()) return;
	const Nanoseconds now = monotonic_now();
	std::erase_if(greetings_, [&](const auto& greeting) { return greeting.second.give_up < now; });
}

// A peer's socket is readable: it has nothing more to say, so this is its end. (Looked at again, because the number may
// be another's since epoll spoke.)
void Progress::bury(int fd) {
	engine_.control([&](adapter::ChannelAdapter&) {
		const auto at = std::ranges::find_if(engine_.links_,
			[fd](const auto& link) { return link->peer().socket.get() == fd || link->peer().pidfd.get() == fd; });
		if (at != engine_.links_.end() && (*at)->peer_is_gone()) {
			forget(**at);
			dying_.push_back({at->get(), monotonic_now() + mourning});
		}
		return 0;
	});
}

void Progress::bury_due() {
	if (dying_.empty()) return;
	const Nanoseconds now = monotonic_now();
	engine_.control([&](adapter::ChannelAdapter&) {
		std::erase_if(dying_, [&](const Dying& dying) {
			if (dying.due > now) return false;
			const auto at =
				std::ranges::find_if(engine_.links_, [&](const auto& link) { return link.get() == dying.link; });
			if (at != engine_.links_.end() && (*at)->peer_is_gone()) engine_.bury(**at);
			return true;
		});
		return 0;
	});
}

}  // namespace verbena::engine
