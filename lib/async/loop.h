// SPDX-License-Identifier: Apache-2.0
// Loop: the event loop of one I/O thread. It polls completion queues (Poller), waits for
// descriptors by epoll or io_uring (selector.h), runs timers, and resumes the coroutines that wait
// for one of these.
//
// Threads: everything belongs to the thread that calls run(), except post() and stop(), which any
//   thread may call, and stop() also a signal handler.
// Owns: the selector, and the coroutines that were spawned.
// Lifetime: descriptors, pollers and timers are removed before the loop is destroyed.
// Errors: an exception that leaves a spawned task ends the program.
// Invariants: a waiting coroutine is resumed by the loop, never from within a poller, a timer or
//   another coroutine, so no callback is entered again while it runs. A turn runs in this order:
//
//     pollers -> posted work -> timers -> ready coroutines -> turn-end hooks -> descriptors
//
// While there is work, for `spin` after it, and until the time of expect_work(), the loop does not
// sleep, and looks at the descriptors in every eighth turn only. Then it arms the pollers and
// sleeps until a descriptor is ready, a timer expires, work is posted, or stop() is called.
#pragma once

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/prefetch.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "lib/async/list.h"
#include "lib/async/selector.h"
#include "lib/async/task.h"

namespace verbena::async {

class Loop;
class Sleep;

// A suspended coroutine that the loop can resume. The Waiter lives in the frame of that coroutine:
// when the frame is destroyed, the Waiter leaves its list, and the coroutine is not resumed.
class Waiter : public Linked {
public:
	std::coroutine_handle<> coroutine;
};

// A source of work that the loop polls in each turn. Its owner adds it to the loop and removes it.
class Poller {
public:
	virtual ~Poller() = default;
	// Does the work that there is. Returns the number of events handled; 0: there was no work.
	virtual std::size_t poll() = 0;
	// Called before the loop sleeps: makes descriptor() become readable at the next event. False:
	// there may be work already, so the loop must not sleep.
	virtual bool arm() = 0;
	// Called when descriptor() is readable; makes it unreadable until the next event.
	virtual void acknowledge() = 0;
	virtual int descriptor() const = 0;
};

// A hook that runs at the end of each turn in which at_turn_end() asked for it: once, however often
// it was asked for. Channels use it to send together the messages of one turn.
class TurnEnd : public Linked {
public:
	virtual void turn_ends() = 0;

protected:
	~TurnEnd() = default;
};

// An open file descriptor that the loop watches (edge-triggered); the destructor closes it. Destroy
// it before the loop. Code whose system call would block clears `readable` or `writable`, and waits
// in `readers` or `writers`.
class Descriptor {
public:
	Descriptor() = default;
	Descriptor(Loop& loop, int fd);
	~Descriptor();
	Descriptor(const Descriptor&) = delete;
	Descriptor& operator=(const Descriptor&) = delete;

	int fd() const { return fd_; }
	Loop& loop() const { return *loop_; }  // not for a default-constructed one
	// Stops watching and returns the file descriptor, which the caller then owns and may, for
	// example, give to another loop.
	int release();

	// Coroutines that the loop resumes when the descriptor has become readable, or writable.
	List<Waiter> readers, writers;
	bool readable = true, writable = true;  // cleared by the caller at EAGAIN, set by the loop

private:
	friend class Loop;
	Loop* loop_ = nullptr;
	int fd_ = -1;
};

// A timer of a loop. Cancel it before its destructor runs.
class Timer : public TimerEntry {
public:
	// Called once when the deadline has passed; the timer is then no longer scheduled.
	virtual void expire() = 0;

protected:
	~Timer() = default;
};

struct LoopOptions {
	// The time for which the loop polls after its last work before it sleeps; 0: it sleeps at once.
	Nanoseconds spin = 50'000;
	// The wanted kind of selector. If the loop uses another, Loop::selector_refusal() says why.
	SelectorKind selector = SelectorKind::epoll;
};

class Loop {
public:
	explicit Loop(const LoopOptions& options = {});
	~Loop();
	Loop(const Loop&) = delete;
	Loop& operator=(const Loop&) = delete;

	// Both return after stop(). run_until() also returns once `done` returns true; the loop calls
	// `done` once in each turn.
	void run();
	void run_until(const std::function<bool()>& done);
	// Runs the loop until this task has ended, or after stop().
	void complete(Task<void> task);

	// For a program with an event loop of its own, such as one by poll() or epoll. Once arm() has
	// been called, descriptor() is readable whenever run_ready() has work: level-triggered, until
	// run_ready() is called. It is -1 if the system has no descriptor left, or with io_uring.
	int descriptor();
	// Handles the work that there is, without waiting.
	void run_ready();
	// One turn without its descriptors, so that what was begun outside of the loop leaves.
	void run_turn();
	// Makes descriptor() readable at the next event, or at once if `ready` or if there is work now.
	void arm(bool ready);

	// Any thread may call these two. stop() makes run() return after the present turn; if the loop
	// does not run, the next run() returns at once. post() makes the loop run `work` on its thread,
	// in this turn or a later one; abandon_spawned() and ~Loop destroy work that has not run.
	void stop();
	void post(std::function<void()> work);

	// The monotonic time at which this turn began. Outside of the loop it is that of the last turn,
	// until update_now() makes it the present one. Call that before you begin an operation outside
	// of the loop: it also counts as work, so the loop then polls for `spin` before it sleeps.
	Nanoseconds now() const { return now_; }
	void update_now() { now_ = last_work_ = monotonic_now(); }

	// There will be work at about this time, so the loop polls until then. A sleep would cost more
	// than it saves. Without effect if `spin` is 0.
	void expect_work(Nanoseconds when) { expected_ = std::max(expected_, when); }
	Nanoseconds expected() const { return expected_; }  // the latest of these times; 0: none

	SelectorKind selector() const { return selector_->kind(); }
	// Why selector() is not the wanted kind, in a few words; empty if it is.
	const std::string& selector_refusal() const { return selector_refusal_; }

	// Starts the task in this turn or the next. The loop owns it until it ends.
	void spawn(Task<void> task);
	std::size_t spawned() const { return spawned_; }  // tasks that have not ended
	// Destroys the spawned tasks that have not ended, wherever they are suspended, and posted work
	// that has not run. Call it before you destroy objects that the tasks use; ~Loop calls it too.
	void abandon_spawned();

	// Moves a waiter, or all waiters of a list, to the list that the loop resumes in this turn or
	// the next.
	void resume_soon(Waiter& waiter) {
		// The loop resumes it later, so there is time to prefetch its frame.
		prefetch(waiter.coroutine.address(), 2 * cache_line);
		ready_.push_back(waiter);
	}
	void resume_soon(List<Waiter>& waiters) { ready_.splice(waiters); }
	// Calls the hook at the end of this turn; if a hook calls this function, at the end of the
	// next.
	void at_turn_end(TurnEnd& hook) {
		if (!hook.linked()) turn_ends_.push_back(hook);
	}

	// Begins, and ends, to poll `poller` and to watch its descriptor().
	void add(Poller& poller);
	void remove(Poller& poller);

	// Sets the timer, or moves it to another deadline (monotonic); `never` cancels it.
	void schedule(Timer& timer, Nanoseconds deadline) { timers_.schedule(timer, deadline); }
	void cancel(Timer& timer) { timers_.cancel(timer); }

	// Awaitable: co_await loop.sleep_until(t).
	Sleep sleep_until(Nanoseconds deadline);
	Sleep sleep_for(Nanoseconds duration);

private:
	friend class Descriptor;
	struct Root;

	// One turn without its descriptors; true if there was work.
	bool turn();
	// Waits up to `patience` for ready descriptors, and makes the waiters of each ready.
	void look_at_descriptors(Nanoseconds patience);
	std::size_t run_posted();
	void wake();
	void wait_for_events();

	LoopOptions options_;
	std::unique_ptr<Selector> selector_;
	std::string selector_refusal_;
	int wake_ = -1;  // the eventfd by which post() and stop() end the sleep
	int alarm_ = -1;  // a timerfd, which makes descriptor() readable at the next timer; -1: none
	std::atomic<bool> stopped_{false};
	// Set while the loop sleeps or is about to; otherwise post() need not wake it
	// (wait_for_events()).
	std::atomic<bool> asleep_{false};
	std::atomic<bool> posted_any_{false};
	std::mutex posted_lock_;
	// posted_lock_ guards posted_. The loop swaps it with running_, to run the work without the
	// lock.
	std::vector<std::function<void()>> posted_, running_;

	Nanoseconds now_;
	Nanoseconds last_work_;
	Nanoseconds expected_ = 0;  // the latest time of expect_work()
	TimerWheel timers_;
	List<Waiter> ready_;
	List<TurnEnd> turn_ends_;
	List<Root> roots_;  // the spawned tasks
	std::size_t spawned_ = 0;
	std::vector<Poller*> pollers_;
	// Turns since the last look at the descriptors.
	unsigned turns_without_look_ = 0;
};

// Awaitable: resumes the coroutine at the deadline. Its destructor cancels the timer.
class Sleep : public Timer, public Waiter {
public:
	Sleep(Loop& loop, Nanoseconds deadline) : loop_(loop), deadline_(deadline) {}
	~Sleep() { loop_.cancel(*this); }
	bool await_ready() const { return false; }
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		loop_.schedule(*this, deadline_);
	}
	void await_resume() const {}
	void expire() override { loop_.resume_soon(*this); }

private:
	Loop& loop_;
	Nanoseconds deadline_;
};

// Awaitable: waits in a list until some code resumes the waiters of that list.
class Park : public Waiter {
public:
	explicit Park(List<Waiter>& list) : list_(list) {}
	bool await_ready() const { return false; }
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		list_.push_back(*this);
	}
	void await_resume() const {}

private:
	List<Waiter>& list_;
};

// Awaitable: lets the other ready coroutines run first.
class NextTurn : public Waiter {
public:
	explicit NextTurn(Loop& loop) : loop_(loop) {}
	bool await_ready() const { return false; }
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		loop_.resume_soon(*this);
	}
	void await_resume() const {}

private:
	Loop& loop_;
};

inline Sleep Loop::sleep_until(Nanoseconds deadline) { return {*this, deadline}; }
inline Sleep Loop::sleep_for(Nanoseconds duration) { return {*this, monotonic_now() + duration}; }

}  // namespace verbena::async
