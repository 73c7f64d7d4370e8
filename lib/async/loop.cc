#include "lib/async/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <ctime>

namespace verbena::async {
namespace {

// How many turns with work may pass before the descriptors get a look.
constexpr unsigned turns_between_looks = 8;
constexpr int events_at_once = 256;

// What epoll gives back: a Descriptor, a Poller (lowest bit set), or nothing for the wake-up.
constexpr std::uintptr_t poller_mark = 1;

}  // namespace

// A spawned coroutine: owns the task's frame through its own, and leaves the list when it ends.
struct Loop::Root : Linked {
	std::coroutine_handle<> frame;
};

namespace {

struct Detached {
	struct promise_type {
		Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		[[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
	};
	std::coroutine_handle<> frame;
};

}  // namespace

Descriptor::Descriptor(Loop& loop, int fd) : loop_(&loop), fd_(fd) {
	epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = this}};
	check(epoll_ctl(loop.epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "epoll watches every socket");
}

int Descriptor::release() {
	epoll_ctl(loop_->epoll_, EPOLL_CTL_DEL, fd_, nullptr);
	return std::exchange(fd_, -1);
}

Descriptor::~Descriptor() {
	if (fd_ >= 0) close(fd_);  // leaves the epoll set with it: nobody else has a duplicate
}

Loop::Loop(const LoopOptions& options)
	: options_(options),
	  epoll_(epoll_create1(EPOLL_CLOEXEC)),
	  wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
	  now_(monotonic_now()),
	  last_work_(now_),
	  timers_(now_) {
	check(epoll_ >= 0 && wake_ >= 0, "a loop needs two descriptors");
	epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
	epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

Loop::~Loop() {
	abandon_spawned();
	close(wake_);
	close(epoll_);
}

void Loop::abandon_spawned() {
	while (Root* root = roots_.pop_front()) root->frame.destroy();
}

void Loop::run() {
	run_until([] { return false; });
}

void Loop::run_until(const std::function<bool()>& done) {
	while (!stopped_.load(std::memory_order_relaxed) && !done()) {
		now_ = monotonic_now();
		const bool worked = turn();
		if (worked) last_work_ = now_;
		if (worked || now_ - last_work_ < options_.spin) {
			if (++turns_without_look_ >= turns_between_looks) look_at_descriptors(0);
		} else {
			wait_for_events();
		}
	}
	stopped_.store(false, std::memory_order_relaxed);
}

void Loop::complete(Task<void> task) {
	bool finished = false;
	spawn([](Task<void> inner, bool& flag) -> Task<void> {
		co_await std::move(inner);
		flag = true;
	}(std::move(task), finished));
	run_until([&] { return finished; });
}

bool Loop::turn() {
	std::size_t work = 0;
	for (std::size_t i = 0; i < pollers_.size(); ++i) work += pollers_[i]->poll();
	if (posted_any_.load(std::memory_order_acquire)) work += run_posted();
	if (timers_.size() > 0)
		timers_.advance(now_, [&](TimerEntry& entry) {
			static_cast<Timer&>(entry).expire();
			++work;
		});
	// Who becomes ready meanwhile has its turn in the next one, so that a coroutine that never waits cannot starve the pollers.
	List<Waiter> now;
	now.splice(ready_);
	while (Waiter* waiter = now.pop_front()) {
		waiter->coroutine.resume();
		++work;
	}
	List<TurnEnd> ends;
	ends.splice(turn_ends_);
	while (TurnEnd* end = ends.pop_front()) end->turn_ends();
	return work > 0 || !ready_.empty() || !turn_ends_.empty();  // a hook may have asked for another
}

void Loop::look_at_descriptors(Nanoseconds patience) {
	turns_without_look_ = 0;
	std::array<epoll_event, events_at_once> events;
	const timespec wait{.tv_sec = static_cast<time_t>(patience / 1'000'000'000), .tv_nsec = static_cast<long>(patience % 1'000'000'000)};
	const int count = epoll_pwait2(epoll_, events.data(), events_at_once, patience == never ? nullptr : &wait, nullptr);
	for (int i = 0; i < count; ++i) {
		void* const data = events[i].data.ptr;
		if (data == nullptr) {
			std::uint64_t times;
			[[maybe_unused]] const auto got = read(wake_, &times, sizeof times);
		} else if (reinterpret_cast<std::uintptr_t>(data) & poller_mark) {
			reinterpret_cast<Poller*>(reinterpret_cast<std::uintptr_t>(data) & ~poller_mark)->acknowledge();
			last_work_ = now_;
		} else {
			auto* const descriptor = static_cast<Descriptor*>(data);
			if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
				descriptor->readable = true;
				resume_soon(descriptor->readers);
			}
			if (events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
				descriptor->writable = true;
				resume_soon(descriptor->writers);
			}
		}
	}
}

void Loop::wait_for_events() {
	for (Poller* poller : pollers_)
		if (!poller->arm()) return;
	asleep_.store(true, std::memory_order_seq_cst);  // before the last look at what others posted
	Nanoseconds patience = never;
	if (posted_any_.load(std::memory_order_seq_cst) || stopped_.load(std::memory_order_seq_cst)) patience = 0;
	else if (const Nanoseconds next = timers_.next_expiry(); next != never) patience = next <= now_ ? 0 : next - now_;
	look_at_descriptors(patience);
	asleep_.store(false, std::memory_order_relaxed);
}

std::size_t Loop::run_posted() {
	{
		const std::lock_guard guard(posted_lock_);
		running_.swap(posted_);
		posted_any_.store(false, std::memory_order_relaxed);
	}
	for (auto& work : running_) work();
	const std::size_t count = running_.size();
	running_.clear();
	return count;
}

void Loop::post(std::function<void()> work) {
	{
		const std::lock_guard guard(posted_lock_);
		posted_.push_back(std::move(work));
	}
	posted_any_.store(true, std::memory_order_seq_cst);
	if (!asleep_.load(std::memory_order_seq_cst)) return;
	const std::uint64_t one = 1;
	[[maybe_unused]] const auto put = write(wake_, &one, sizeof one);
}

void Loop::stop() {
	stopped_.store(true, std::memory_order_seq_cst);
	const std::uint64_t one = 1;
	[[maybe_unused]] const auto put = write(wake_, &one, sizeof one);  // a signal handler may call this
}

void Loop::spawn(Task<void> task) {
	const auto body = [](Loop& loop, Task<void> inner) -> Detached {
		Root root;
		root.frame = co_await [] {
			struct Self {
				std::coroutine_handle<> self;
				bool await_ready() const { return false; }
				bool await_suspend(std::coroutine_handle<> handle) {
					self = handle;
					return false;
				}
				std::coroutine_handle<> await_resume() const { return self; }
			};
			return Self{};
		}();
		loop.roots_.push_back(root);
		struct Count {
			std::size_t& count;
			explicit Count(std::size_t& of) : count(of) { ++count; }
			~Count() { --count; }
		} const counted(loop.spawned_);
		co_await NextTurn(loop);  // what is spawned runs from the loop and not from here
		co_await std::move(inner);
	};
	body(*this, std::move(task)).frame.resume();
}

void Loop::add(Poller& poller) {
	pollers_.push_back(&poller);
	epoll_event event{.events = EPOLLIN, .data = {.u64 = reinterpret_cast<std::uintptr_t>(&poller) | poller_mark}};
	check(epoll_ctl(epoll_, EPOLL_CTL_ADD, poller.descriptor(), &event) == 0, "epoll watches a poller's descriptor");
}

void Loop::remove(Poller& poller) {
	std::erase(pollers_, &poller);
	epoll_ctl(epoll_, EPOLL_CTL_DEL, poller.descriptor(), nullptr);
}

}  // namespace verbena::async
