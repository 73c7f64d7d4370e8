// ManagedEvents: the events of rdma_cm for coroutines. One channel of events, read by its loop; ManagedId is one
// connection of it, whose coroutine waits for what comes.
//
//     ManagedId id(begin_resolve(...));
//     auto event = co_await id.next(deadline);       // nothing: the deadline came first
//
// Of one loop's thread. Ids die before it.
#pragma once

#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/job.h"
#include "lib/verbs/connection_manager.h"

namespace verbena::channel {

class ManagedEvents;

// One connection's id, and the events that came for it.
class ManagedId {
public:
	explicit ManagedId(async::Loop& loop) : loop_(loop) {}
	ManagedId(const ManagedId&) = delete;
	ManagedId& operator=(const ManagedId&) = delete;

	// The id's context is this object from then on.
	void own(lib::ConnectionId id) {
		id_ = std::move(id);
		id_->context = this;
	}
	// Its end: the other side is told.
	void end() { id_.reset(); }
	rdma_cm_id* get() const { return id_.get(); }

	class Next : public async::Timer, public async::Waiter {
	public:
		Next(ManagedId& id, Nanoseconds deadline) : id_(id), deadline_(deadline) {}
		~Next() { id_.loop_.cancel(*this); }
		bool await_ready() const { return id_.has_news(); }
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			id_.waiting_.push_back(*this);
			id_.loop_.schedule(*this, deadline_);
		}
		std::optional<lib::ConnectionEvent> await_resume() { return id_.take(); }
		void expire() override { id_.loop_.resume_soon(*this); }

	private:
		ManagedId& id_;
		Nanoseconds deadline_;
	};
	// The next event, or nothing: at the deadline, or when somebody wakes it.
	Next next(Nanoseconds deadline) { return {*this, deadline}; }
	void wake() {
		woken_ = true;
		loop_.resume_soon(waiting_);
	}

private:
	friend class ManagedEvents;
	bool has_news() const { return woken_ || !events_.empty(); }
	std::optional<lib::ConnectionEvent> take();

	async::Loop& loop_;
	lib::ConnectionId id_;
	std::deque<lib::ConnectionEvent> events_;
	async::List<async::Waiter> waiting_;
	bool woken_ = false;
};

class ManagedEvents {
public:
	// Called with a new connection that asks for a listener, and the private data that it brings.
	using Request = std::function<void(lib::ConnectionId, std::vector<std::byte>)>;

	// One sentence on failure: no device, no rdma_cm.
	static std::expected<std::unique_ptr<ManagedEvents>, std::string> open(async::Loop& loop);
	ManagedEvents(const ManagedEvents&) = delete;
	ManagedEvents& operator=(const ManagedEvents&) = delete;

	std::expected<void, std::string> listen(const lib::SocketAddress& where, int backlog, Request request);
	// Nobody new.
	void stop_listening() { listener_.reset(); }

	async::Loop& loop() const { return loop_; }
	rdma_event_channel* channel() const { return channel_.get(); }

private:
	ManagedEvents(async::Loop& loop, lib::EventChannel channel);
	async::Task<void> read();

	async::Loop& loop_;
	lib::EventChannel channel_;
	std::unique_ptr<async::Descriptor> watched_;  // the channel's descriptor again
	lib::ConnectionId listener_;
	Request request_;
	async::Job reader_;
};

}  // namespace verbena::channel
