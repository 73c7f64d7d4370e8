#include "nic/engine/progress.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "nic/engine/thread.h"

namespace verbena::engine {

namespace {

constexpr Nanoseconds greeting_pause = 100'000'000;  // while a peer is connecting
constexpr Nanoseconds greeting_patience =
	static_cast<Nanoseconds>(std::chrono::nanoseconds(PendingPeer::patience).count());
// The program's first passes are made within this time, so the process is not ARMED before.
constexpr Nanoseconds first_sleep = 2'000'000;
// One look at a listening socket accepts at most this many peers, so that connecting peers cannot
// starve passes.
constexpr int accepts_max = 16;

}  // namespace

int Progress::start() {
	stop_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (!stop_ || !epoll_.add(own_.doorbell()) || !epoll_.add(stop_.get())) return errno;
	thread_ = start_thread("verbena", [this] { run(); });
	return 0;
}

Progress::~Progress() {
	if (!thread_.joinable()) return;
	const std::uint64_t one = 1;
	[[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
	thread_.join();
}

void Progress::abandon_after_fork() {
	thread_.detach();
	greetings_.clear();
	stop_ = Descriptor();
}

void Progress::hand_over() {
	const std::lock_guard lock(handed_over_mutex_);
	if (handed_over_++ == 0) epoll_.remove(own_.doorbell());
}

void Progress::take_back() {
	const std::lock_guard lock(handed_over_mutex_);
	if (--handed_over_ == 0) epoll_.add(own_.doorbell());
}

void Progress::run() {
	own_.page().progress_tid.store(gettid(), std::memory_order_relaxed);
	Nanoseconds sleep = first_sleep;
	for (;;) {
		std::array<epoll_event, 32> events;
		for (const epoll_event& event : epoll_.wait(events, sleep)) {
			if (event.data.fd == stop_.get()) return;
			handle(event.data.fd);
		}
		expire_greetings();
		sleep = engine_.drive_in_background();
		if (!greetings_.empty()) sleep = std::min(sleep, greeting_pause);
	}
}

void Progress::handle(int fd) {
	if (fd == EpollSet::no_fd) return;
	if (fd == own_.doorbell()) return own_.drain();
	if (const auto greeting = greetings_.find(fd); greeting != greetings_.end()) return greet(greeting);
	const bool is_listener = engine_.control([&](adapter::ChannelAdapter& adapter) {
		if (engine_.neighbours().listens_at(fd)) return true;
		engine_.neighbours().handle_end(fd, adapter.context().now);
		return false;
	});
	if (is_listener) accept_from(fd);
}

void Progress::accept_from(int listener) {
	for (int i = 0; i < accepts_max; ++i) {
		auto peer = PendingPeer::accept(listener, own_.identity(), geteuid());
		if (!peer) {
			if (peer.error() == EPERM) continue;
			return;
		}
		const int fd = peer->fd();
		greetings_.emplace(fd, Pending{std::move(*peer), monotonic_now() + greeting_patience});
		epoll_.add(fd);
	}
}

// Under the engine's lock from the look-up of the token until the link is registered, because the
// peer may send as soon as it has our WELCOME.
void Progress::greet(std::map<int, Pending>::iterator greeting) {
	const auto step = engine_.control([&](adapter::ChannelAdapter&) {
		Neighbours& neighbours = engine_.neighbours();
		const auto step =
			greeting->second.peer.on_readable([&](std::uint64_t token) { return neighbours.linked(token); });
		if (step == PendingPeer::Step::again) return step;
		epoll_.remove(greeting->first);
		if (step == PendingPeer::Step::failed) return step;
		Peer peer = greeting->second.peer.take();
		if (!peer.is_self && !peer.already_linked) neighbours.add(std::move(peer));
		return step;
	});
	if (step != PendingPeer::Step::again) greetings_.erase(greeting);
}

void Progress::expire_greetings() {
	if (greetings_.empty()) return;
	const Nanoseconds now = monotonic_now();
	std::erase_if(greetings_, [&](const auto& greeting) { return greeting.second.give_up < now; });
}

}  // namespace verbena::engine
