// IoThread: a thread that runs a loop, with the RDMA transports that channels on it share. IoThreads: several, given
// out in turn.
//
// Made and destroyed by any other thread; whoever uses one (clients, servers) dies before it. on() brings a coroutine
// to a thread:
//
//     co_await thread.on();      // from here on this thread; at once, if it is there already
//
// A coroutine must not be destroyed while it is on another thread or on its way. The library's own ones go away from an
// I/O thread as a Visit and come back to it, so that it knows of them.
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

// What the transports of a thread, or of several, hold now and have done since they were opened.
struct RdmaUse {
	std::uint64_t pinned_bytes = 0;  // of receive and send buffers that are not free
	std::uint64_t frames = 0, frames_inline = 0;  // sent
	std::uint64_t registrations = 0;  // ibv_reg_mr calls for the memory of large data
	std::uint64_t refused = 0;  // buffers of it that were asked for above the watermark
	std::uint32_t parts_most = 0;  // of large data that one connection had under way

	RdmaUse& operator+=(const RdmaUse& other);
};

class IoThread {
public:
	explicit IoThread(const async::LoopOptions& options = {});
	// Waits for coroutines that are away, and ends what still runs on it, wherever it stands.
	~IoThread();
	IoThread(const IoThread&) = delete;
	IoThread& operator=(const IoThread&) = delete;

	static IoThread* current();  // null on any other thread
	bool here() const { return current() == this; }
	async::Loop& loop() { return loop_; }

	// On this thread: the transport of this device and these options; opened by the first who asks.
	std::expected<channel::RcTransport*, std::string> transport(
		const lib::Wish& wish, const channel::RcOptions& options);

	// On this thread.
	RdmaUse rdma() const;

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

	// In a coroutine's frame: it goes to a thread, and back to the I/O thread that it came from, if it came from one.
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
	// Coroutines of this thread that visit others.
	std::uint32_t away() const { return away_.load(); }
	// Waits until there are none. By another thread.
	void until_all_are_back() const {
		for (std::uint32_t now = away_.load(); now != 0; now = away_.load()) away_.wait(now);
	}

	// Runs `work` on this thread: at once if it is this one.
	template <class Work> void run(Work work) {
		if (here()) work();
		else loop_.post(std::move(work));
	}

private:
	struct Opened {
		lib::Wish wish;
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
	// The threads start as they are asked for.
	explicit IoThreads(std::size_t count, const async::LoopOptions& options = {});
	// Coroutines that visit one of them from another come back first.
	~IoThreads();

	IoThread& next();  // in turn; from any thread
	std::size_t count() const { return threads_.size(); }
	IoThread& at(std::size_t index);

	// For who names none: as many as the machine has cores, until the program ends.
	static IoThreads& of_process();

private:
	async::LoopOptions options_;
	std::mutex lock_;
	std::size_t next_ = 0;
	std::vector<std::unique_ptr<IoThread>> threads_;
};

}  // namespace verbena::rpc
