// Loop: one I/O thread. It polls completion queues (Poller), waits for descriptors by epoll or
// io_uring (selector.h), runs timers, and resumes the coroutines that wait for any of them.
//
// Threads: everything belongs to the thread that calls run(), except post() and stop(), which any
//   thread may call, and stop() also a signal handler.
// Owns: the selector, and the coroutines that were spawned.
// Lifetime: descriptors, pollers and timers are removed before the loop is destroyed.
// Errors: an exception that leaves a spawned task ends the program.
// Invariants: coroutines are resumed by the loop, never from within a poller or from a call of
//   another coroutine, so no callback is reentered. A turn runs in this order:
//
//     pollers -> posted work -> timers -> ready coroutines -> turn-end hooks -> descriptors
//
// While there is work, and for `spin` after the last work, the loop only looks at descriptors and
// does not sleep. Then it arms the pollers and sleeps until a descriptor is ready, a timer expires,
// or work is posted.
#pragma once

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

// A suspended coroutine that the loop can resume. It lives in the coroutine's frame: when the frame
// is destroyed, it leaves its list and is not resumed.
class Waiter : public Linked {
public:
	std::coroutine_handle<> coroutine;
};

// A source of work that the loop asks in each turn. Its owner adds and removes it.
class Poller {
public:
	virtual ~Poller() = default;
	// Does the work that is there and returns how much that was.
	virtual std::size_t poll() = 0;
	// Called before the loop sleeps: makes descriptor() readable with the next event. Returns false
	// if there is work already; then the loop does not sleep.
	virtual bool arm() = 0;
	// Called when descriptor() became readable.
	virtual void acknowledge() = 0;
	virtual int descriptor() const = 0;
};

// A hook that runs once at the end of each turn in which at_turn_end() asked for it, to send what
// the messages of one turn have in common.
class TurnEnd : public Linked {
public:
	virtual void turn_ends() = 0;

protected:
	~TurnEnd() = default;
};

// An open descriptor that the loop watches (edge-triggered) and that it closes when destroyed;
// destroy it before the loop. A call that would block clears `readable` or `writable` and awaits.
class Descriptor {
public:
	Descriptor() = default;
	Descriptor(Loop& loop, int fd);
	~Descriptor();
	Descriptor(const Descriptor&) = delete;
	Descriptor& operator=(const Descriptor&) = delete;

	int fd() const { return fd_; }
	Loop& loop() const { return *loop_; }
	// Stops watching and returns the descriptor, which then belongs to the caller, for example for
	// another loop.
	int release();

	// Coroutines to resume when the kernel reports a change.
	List<Waiter> readers, writers;
	bool readable = true, writable = true;  // cleared by a call that returns EAGAIN

private:
	friend class Loop;
	Loop* loop_ = nullptr;
	int fd_ = -1;
};

// A timer of the loop; cancel it before its destructor runs.
class Timer : public TimerEntry {
public:
	virtual void expire() = 0;

protected:
	~Timer() = default;
};

struct LoopOptions {
	// The time to poll after the last work before sleeping; 0: sleep at once.
	Nanoseconds spin = 50'000;
	// The kind that is asked for; selector_refusal() says why, if the loop uses another.
	SelectorKind selector = SelectorKind::epoll;
};

class Loop {
public:
	explicit Loop(const LoopOptions& options = {});
	~Loop();
	Loop(const Loop&) = delete;
	Loop& operator=(const Loop&) = delete;

	// run() returns after stop(); run_until() also once `done` returns true, which is asked once a
	// turn.
	void run();
	void run_until(const std::function<bool()>& done);
	// Runs the loop until this task has ended.
	void complete(Task<void> task);

	// Any thread may call these two. stop() makes run() return after its turn. post() runs `work`
	// on the loop's thread in a later turn; `work` is destroyed unrun if the loop ends first.
	void stop();
	void post(std::function<void()> work);

	Nanoseconds now() const { return now_; }  // monotonic time at which this turn began

	SelectorKind selector() const { return selector_->kind(); }
	// Why selector() is not the kind that was asked for, in a few words; else empty.
	const std::string& selector_refusal() const { return selector_refusal_; }

	// Starts the task in this turn or the next. The loop owns it until it ends.
	void spawn(Task<void> task);
	std::size_t spawned() const { return spawned_; }
	// Destroys the spawned tasks that have not ended, wherever they are suspended, and posted work
	// that has not run. Call it before destroying objects that they use; ~Loop does it too.
	void abandon_spawned();

	// Moves a waiter, or all of a list, to those that the loop resumes in this turn or the next.
	void resume_soon(Waiter& waiter) {
		// It is resumed only after all ready coroutines have been found.
		prefetch(waiter.coroutine.address(), 2 * cache_line);
		ready_.push_back(waiter);
	}
	void resume_soon(List<Waiter>& waiters) { ready_.splice(waiters); }
	// Calls the hook at the end of this turn.
	void at_turn_end(TurnEnd& hook) {
		if (!hook.linked()) turn_ends_.push_back(hook);
	}

	void add(Poller& poller);
	void remove(Poller& poller);

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
	void look_at_descriptors(Nanoseconds patience);
	std::size_t run_posted();
	void wait_for_events();

	LoopOptions options_;
	std::unique_ptr<Selector> selector_;
	std::string selector_refusal_;
	int wake_ = -1;
	std::atomic<bool> stopped_{false};
	// post() wakes the loop only while this is set; see wait_for_events().
	std::atomic<bool> asleep_{false};
	std::atomic<bool> posted_any_{false};
	std::mutex posted_lock_;
	// posted_lock_ guards posted_; the loop swaps it with running_ to run it without the lock.
	std::vector<std::function<void()>> posted_, running_;

	Nanoseconds now_;
	Nanoseconds last_work_;
	TimerWheel timers_;
	List<Waiter> ready_;
	List<TurnEnd> turn_ends_;
	List<Root> roots_;
	std::size_t spawned_ = 0;
	std::vector<Poller*> pollers_;
	// Turns with work since the last look at the descriptors.
	unsigned turns_without_look_ = 0;
};

// Awaitable: resumes at the deadline. Destroying it cancels the timer.
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
