// SPDX-License-Identifier: Apache-2.0
// IoThread: a thread that runs a loop, and the RDMA transports that channels on it share.
// IoThreads: several of them, which are handed out in turn.
//
//     co_await thread.on();      // continue on this thread; no wait if it is the current one
//
// Threads: current(), here(), on(), run(), away() and loop().post() are thread-safe; IoThreads is
//   thread-safe. The rest belongs to the thread itself. Construct and destroy on another thread.
// Owns: the loop, the transports, and the coroutines that were spawned on the loop.
// Lifetime: clients, servers and everything else that uses a thread must be gone before it.
// Invariants: a coroutine is not destroyed while it runs on another thread or is on its way there.
//   The library's own coroutines leave an I/O thread only as a Visit, which the destructor awaits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/async/loop.h"
#include "lib/channel/rc_transport.h"

namespace verbena::rpc {

// Memory that the transports of one or several threads hold now, and counters since their opening.
struct RdmaUse {
	std::uint64_t pinned_bytes = 0;  // bytes of receive and send buffers in use
	std::uint64_t frames = 0, frames_inline = 0;  // frames sent, and how many of them inline
	std::uint64_t registrations = 0;  // calls of ibv_reg_mr for the memory of large data
	std::uint64_t refused = 0;  // requests for such memory above the watermark
	std::uint32_t parts_most = 0;  // the most parts of large data in flight on one connection

	RdmaUse& operator+=(const RdmaUse& other);  // sums; parts_most is the maximum
};

class IoThread {
public:
	explicit IoThread(const async::LoopOptions& options = {});
	// Waits until its coroutines have returned from other threads, ends the thread, and destroys
	// the coroutines that have not finished.
	~IoThread();
	IoThread(const IoThread&) = delete;
	IoThread& operator=(const IoThread&) = delete;

	static IoThread* current();  // the calling I/O thread; null on any other kind of thread
	bool here() const { return current() == this; }
	async::Loop& loop() { return loop_; }

	// Returns the transport for this device and these options, and opens it at the first call. It
	// belongs to this thread, which must be the calling one. Error: one sentence.
	std::expected<channel::RcTransport*, std::string> transport(
		const lib::DeviceRequest& wish, const channel::RcOptions& options);

	// To be called on this thread.
	RdmaUse rdma() const;

	// The awaitable of on().
	class Arrival : public async::Waiter {
	public:
		explicit Arrival(IoThread& at) : at_(at) {}
		bool await_ready() const { return at_.here(); }
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			at_.loop().post([this] { at_.loop().resume_soon(*this); });
		}
		void await_resume() const {}

	private:
		IoThread& at_;
	};
	Arrival on() { return Arrival(*this); }

	// Takes a coroutine to a thread and back to the I/O thread it came from; it stays there if it
	// came from another kind of thread. Lives in the coroutine's frame. While it exists, the I/O
	// thread that it came from counts the coroutine as away.
	class Visit {
	public:
		explicit Visit(IoThread& to) : to_(to), from_(to.here() ? nullptr : current()) {
			if (from_ != nullptr) from_->away_.fetch_add(1);
		}
		Visit(const Visit&) = delete;
		Visit& operator=(const Visit&) = delete;
		~Visit() {
			if (from_ != nullptr && from_->away_.fetch_sub(1) == 1) from_->away_.notify_all();
		}
		Arrival there() { return to_.on(); }
		Arrival back() { return from_ != nullptr ? from_->on() : to_.on(); }

	private:
		IoThread& to_;
		IoThread* from_;
	};
	// The number of this thread's coroutines that visit other threads.
	std::uint32_t away() const { return away_.load(); }
	// Blocks until that number is 0. To be called by another thread.
	void wait_until_none_away() const {
		for (std::uint32_t now = away_.load(); now != 0; now = away_.load()) away_.wait(now);
	}

	// Runs `work` on this thread: at once if it is the current one, otherwise asynchronously.
	template <class Work> void run(Work work) {
		if (here()) work();
		else loop_.post(std::move(work));
	}

private:
	struct Opened {
		lib::DeviceRequest wish;
		channel::RcOptions options;
		std::unique_ptr<channel::RcTransport> transport;
	};
	async::Loop loop_;
	std::atomic<std::uint32_t> away_{0};
	std::vector<Opened> transports_;
	std::jthread thread_;
};

class IoThreads {
public:
	// Each thread starts when it is first asked for. A count of 0 counts as 1.
	explicit IoThreads(std::size_t count, const async::LoopOptions& options = {});
	// Waits first until no coroutine of one thread visits another.
	~IoThreads();

	IoThread& next();  // the next one in turn
	std::size_t count() const { return threads_.size(); }
	IoThread& at(std::size_t index);  // index: below count()

	// The default threads of clients and pools: one for each core, until the program ends.
	static IoThreads& of_process();

private:
	async::LoopOptions options_;
	std::mutex lock_;
	std::size_t next_ = 0;
	std::vector<std::unique_ptr<IoThread>> threads_;
};

}  // namespace verbena::rpc
