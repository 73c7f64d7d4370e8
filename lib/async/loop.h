// Loop: one I/O thread. It polls what must be polled (completion queues), waits for descriptors by epoll or io_uring
// (selector.h), keeps timers, and resumes the coroutines that wait for them.
//
// Everything belongs to the thread that calls run(), except post() and stop(), which any thread may call. A turn:
//
//     poll the pollers  ->  what other threads posted  ->  timers  ->  resume who is ready  ->  turn-end hooks  ->
//     descriptors
//
// While there is work, or was within `spin`, descriptors are only looked at; after that the pollers are armed and the
// thread sleeps until a descriptor, a timer or a post. Coroutines are resumed from the loop and never from within a
// poller or a call of theirs, so no callback is ever entered twice.
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

// Somebody who waits to be resumed by the loop. Dies with its coroutine's frame, and is then resumed by nobody.
class Waiter : public Linked {
public:
	std::coroutine_handle<> coroutine;
};

// What the loop asks in each turn. Added and removed by its owner.
class Poller {
public:
	virtual ~Poller() = default;
	// Does what there is to do, and says how much that was.
	virtual std::size_t poll() = 0;
	// Before the loop sleeps: let descriptor() become readable with the next event. False: there is work already, so do
	// not sleep.
	virtual bool arm() = 0;
	// It became readable.
	virtual void acknowledge() = 0;
	virtual int descriptor() const = 0;
};

// Called once at the end of each turn in which it was asked for: what many messages of a turn owe together is sent
// here.
class TurnEnd : public Linked {
public:
	virtual void turn_ends() = 0;

protected:
	~TurnEnd() = default;
};

// An open descriptor that the loop watches, edge-triggered, and closes; it goes before the loop. Calls that would block
// tell `blocked_*` and await.
class Descriptor {
public:
	Descriptor() = default;
	Descriptor(Loop& loop, int fd);
	~Descriptor();
	Descriptor(const Descriptor&) = delete;
	Descriptor& operator=(const Descriptor&) = delete;

	int fd() const { return fd_; }
	Loop& loop() const { return *loop_; }
	// No longer watched here, and the caller's: for another loop.
	int release();

	// Who waits is resumed when the kernel reports a change, or at the deadline.
	List<Waiter> readers, writers;
	bool readable = true, writable = true;  // until a call says EAGAIN

private:
	friend class Loop;
	Loop* loop_ = nullptr;
	int fd_ = -1;
};

class Timer : public TimerEntry {
public:
	virtual void expire() = 0;

protected:
	~Timer() = default;
};

struct LoopOptions {
	Nanoseconds spin = 50'000;  // how long to poll after the last work before sleeping; 0: sleep at once
	SelectorKind selector =
		SelectorKind::epoll;  // what asks the kernel for ready descriptors; selector_refusal() says if it is another
};

class Loop {
public:
	explicit Loop(const LoopOptions& options = {});
	~Loop();
	Loop(const Loop&) = delete;
	Loop& operator=(const Loop&) = delete;

	// Until stop(). `run_until` also until the condition holds, asked once a turn.
	void run();
	void run_until(const std::function<bool()>& done);
	// Runs this task to its end.
	void complete(Task<void> task);

	// From any thread.
	void stop();
	void post(std::function<void()> work);

	Nanoseconds now() const { return now_; }  // when this turn began

	SelectorKind selector() const { return selector_->kind(); }
	// Why it is not the one that was asked for, in a few words; empty if it is.
	const std::string& selector_refusal() const { return selector_refusal_; }

	// Starts it in this turn or the next, and forgets it. An exception in it ends the program.
	void spawn(Task<void> task);
	std::size_t spawned() const { return spawned_; }
	// Destroys what was spawned and has not ended, where it stands, and what was posted and has not run. For whoever
	// owns things that those use; ~Loop does it too.
	void abandon_spawned();

	void resume_soon(Waiter& waiter) {
		prefetch(waiter.coroutine.address(), 2 * cache_line);  // it runs when all that are ready have been found
		ready_.push_back(waiter);
	}
	void resume_soon(List<Waiter>& waiters) { ready_.splice(waiters); }
	void at_turn_end(TurnEnd& hook) {
		if (!hook.linked()) turn_ends_.push_back(hook);
	}

	void add(Poller& poller);
	void remove(Poller& poller);

	void schedule(Timer& timer, Nanoseconds deadline) { timers_.schedule(timer, deadline); }
	void cancel(Timer& timer) { timers_.cancel(timer); }

	// co_await loop.sleep_until(t)
	Sleep sleep_until(Nanoseconds deadline);
	Sleep sleep_for(Nanoseconds duration);

private:
	friend class Descriptor;
	struct Root;

	bool turn();
	void look_at_descriptors(Nanoseconds patience);
	std::size_t run_posted();
	void wait_for_events();

	LoopOptions options_;
	std::unique_ptr<Selector> selector_;
	std::string selector_refusal_;
	int wake_ = -1;
	std::atomic<bool> stopped_{false};
	std::atomic<bool> asleep_{false};
	std::atomic<bool> posted_any_{false};
	std::mutex posted_lock_;
	std::vector<std::function<void()>> posted_, running_;

	Nanoseconds now_;
	Nanoseconds last_work_;
	TimerWheel timers_;
	List<Waiter> ready_;
	List<TurnEnd> turn_ends_;
	List<Root> roots_;
	std::size_t spawned_ = 0;
	std::vector<Poller*> pollers_;
	unsigned turns_without_look_ = 0;
};

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

// Waits in a list until somebody resumes what is in it.
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

// Lets the others run first.
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
