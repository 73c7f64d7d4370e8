// SPDX-License-Identifier: Apache-2.0
#include "lib/async/loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

namespace verbena::async {
namespace {

// Busy turns between two looks at the descriptors.
constexpr unsigned turns_between_looks = 8;
constexpr std::size_t ready_at_once = 256;

// The value that the selector reports: a Descriptor, a Poller with its lowest bit set, or null for
// the wake-up.
constexpr std::uintptr_t poller_mark = 1;

void* marked(Poller& poller) {
	return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&poller) | poller_mark);
}

}  // namespace

// A spawned coroutine. It lives in a frame of its own, which owns the task; its destructor removes
// it from the list when the task ends.
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

Descriptor::Descriptor(Loop& loop, int fd) : loop_(&loop), fd_(fd) { loop.selector_->watch_changes(fd, this); }

int Descriptor::release() {
	loop_->selector_->forget(fd_);
	return std::exchange(fd_, -1);
}

Descriptor::~Descriptor() {
	if (fd_ >= 0) close(release());
}

Loop::Loop(const LoopOptions& options)
	: options_(options),
	  wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
	  now_(monotonic_now()),
	  last_work_(now_),
	  timers_(now_) {
	if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "a loop needs a descriptor");
	try {
		ChosenSelector chosen = make_selector(options.selector);
		selector_ = std::move(chosen.selector);
		selector_refusal_ = std::move(chosen.refusal);
	} catch (...) {
		close(wake_);
		throw;
	}
	selector_->watch_readable(wake_, nullptr);
}

Loop::~Loop() {
	abandon_spawned();
	selector_.reset();
	close(wake_);
	if (alarm_ >= 0) close(alarm_);
}

void Loop::abandon_spawned() {
	while (Root* root = roots_.pop_front()) root->frame.destroy();
	// Destroying posted work may post more.
	for (std::vector<std::function<void()>> unrun(1); !unrun.empty();) {
		unrun.clear();
		const std::lock_guard guard(posted_lock_);
		unrun.swap(posted_);
		posted_any_.store(false, std::memory_order_relaxed);
	}
}

void Loop::run() {
	run_until([] { return false; });
}

void Loop::run_until(const std::function<bool()>& done) {
	while (!stopped_.load(std::memory_order_relaxed) && !done()) {
		now_ = monotonic_now();
		const bool worked = turn();
		if (worked) last_work_ = now_;
		if (worked || now_ - last_work_ < options_.spin || (now_ < expected_ && options_.spin > 0)) {
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
	// A coroutine that becomes ready meanwhile is resumed in the next turn, so that one that never
	// waits cannot starve the pollers.
	List<Waiter> now;
	now.splice(ready_);
	while (Waiter* waiter = now.pop_front()) {
		waiter->coroutine.resume();
		++work;
	}
	List<TurnEnd> ends;
	ends.splice(turn_ends_);
	while (TurnEnd* end = ends.pop_front()) end->turn_ends();
	// A hook may have asked for another turn.
	return work > 0 || !ready_.empty() || !turn_ends_.empty();
}

void Loop::look_at_descriptors(Nanoseconds patience) {
	turns_without_look_ = 0;
	std::array<Readiness, ready_at_once> ready;
	const std::size_t count = selector_->wait(ready, patience);
	for (const Readiness& each : std::span(ready).first(count)) {
		if (each.who == nullptr) {
			std::uint64_t times;
			[[maybe_unused]] auto got = read(wake_, &times, sizeof times);
			if (alarm_ >= 0) got = read(alarm_, &times, sizeof times);
		} else if (const auto who = reinterpret_cast<std::uintptr_t>(each.who); who & poller_mark) {
			reinterpret_cast<Poller*>(who & ~poller_mark)->acknowledge();
			last_work_ = now_;
		} else {
			auto* const descriptor = static_cast<Descriptor*>(each.who);
			if (each.readable) {
				descriptor->readable = true;
				resume_soon(descriptor->readers);
			}
			if (each.writable) {
				descriptor->writable = true;
				resume_soon(descriptor->writers);
			}
		}
	}
}

void Loop::wait_for_events() {
	for (Poller* poller : pollers_)
		if (!poller->arm()) return;
	// Set before the last look at posted_any_ and stopped_: with sequentially consistent order,
	// either post() sees it and writes to wake_, or this look sees the posted work.
	asleep_.store(true, std::memory_order_seq_cst);
	Nanoseconds patience = never;
	if (posted_any_.load(std::memory_order_seq_cst) || stopped_.load(std::memory_order_seq_cst)) patience = 0;
	else if (const Nanoseconds next = timers_.next_expiry(); next != never) patience = next <= now_ ? 0 : next - now_;
	look_at_descriptors(patience);
	asleep_.store(false, std::memory_order_relaxed);
}

int Loop::descriptor() {
	if (alarm_ < 0 && selector_->descriptor() >= 0) {
		alarm_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (alarm_ >= 0) selector_->watch_readable(alarm_, nullptr);
	}
	return alarm_ < 0 ? -1 : selector_->descriptor();
}

void Loop::run_ready() {
	asleep_.store(false, std::memory_order_relaxed);
	look_at_descriptors(0);
	do {
		update_now();
	} while (turn());
}

void Loop::run_turn() {
	asleep_.store(false, std::memory_order_relaxed);
	update_now();
	turn();
}

void Loop::arm(bool ready) {
	for (Poller* poller : pollers_)
		if (!poller->arm()) ready = true;
	// The order is that of wait_for_events(). The flag stays set until the loop runs again.
	asleep_.store(true, std::memory_order_seq_cst);
	if (ready || !ready_.empty() || !turn_ends_.empty() || posted_any_.load(std::memory_order_seq_cst)) return wake();
	if (alarm_ < 0) return;
	const Nanoseconds next = timers_.next_expiry();
	// The time 0 would switch the timer off.
	const itimerspec at{.it_value = next == never ? timespec{} : to_timespec(std::max<Nanoseconds>(next, 1))};
	timerfd_settime(alarm_, TFD_TIMER_ABSTIME, &at, nullptr);
}

void Loop::wake() {
	const std::uint64_t one = 1;
	// A signal handler may call stop(): write() is async-signal-safe.
	[[maybe_unused]] const auto put = write(wake_, &one, sizeof one);
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
	if (asleep_.load(std::memory_order_seq_cst)) wake();
}

void Loop::stop() {
	stopped_.store(true, std::memory_order_seq_cst);
	wake();
}

void Loop::spawn(Task<void> task) {
	const auto body = [](Loop& loop, Task<void> inner) -> Detached {
		Root root;
		// Awaits without suspending, to learn this coroutine's own handle.
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
		co_await NextTurn(loop);  // a spawned task is resumed by the loop and not by spawn()
		co_await std::move(inner);
	};
	body(*this, std::move(task)).frame.resume();
}

void Loop::add(Poller& poller) {
	pollers_.push_back(&poller);
	selector_->watch_readable(poller.descriptor(), marked(poller));
}

void Loop::remove(Poller& poller) {
	std::erase(pollers_, &poller);
	selector_->forget(poller.descriptor());
}

}  // namespace verbena::async
