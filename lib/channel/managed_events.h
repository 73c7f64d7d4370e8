// SPDX-License-Identifier: Apache-2.0
// The events of rdma_cm for coroutines: ManagedEvents reads one event channel on its loop and
// passes each event to the ManagedId of its connection, whose coroutine waits for it.
//
//     ManagedId id(loop);
//     id.own(*begin_resolve(...));
//     auto event = co_await id.next(deadline);       // nothing: the deadline came first
//
// Threads: the loop's thread.
// Owns: ManagedEvents the event channel and the listener, a ManagedId its connection's rdma_cm_id.
// Lifetime: ids are destroyed before their ManagedEvents.
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

	// Takes over the connection's id and sets its context to this object.
	void own(lib::ConnectionId id) {
		id_ = std::move(id);
		id_->context = this;
	}
	// Destroys the id; rdma_cm disconnects the peer.
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
	// The next event, or nothing: at the deadline, or after wake().
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
	// Called with a connection request and its private data.
	using Request = std::function<void(lib::ConnectionId, std::vector<std::byte>)>;

	// One sentence on failure: there is no device, or no rdma_cm.
	static std::expected<std::unique_ptr<ManagedEvents>, std::string> open(async::Loop& loop);
	ManagedEvents(const ManagedEvents&) = delete;
	ManagedEvents& operator=(const ManagedEvents&) = delete;

	std::expected<void, std::string> listen(const lib::SocketAddress& where, int backlog, Request request);
	// Accepts no further requests.
	void stop_listening() { listener_.reset(); }

	async::Loop& loop() const { return loop_; }
	rdma_event_channel* channel() const { return channel_.get(); }

private:
	ManagedEvents(async::Loop& loop, lib::EventChannel channel);
	async::Task<void> read();

	async::Loop& loop_;
	lib::EventChannel channel_;
	std::unique_ptr<async::Descriptor> watched_;  // a duplicate of the channel's descriptor
	lib::ConnectionId listener_;
	Request request_;
	async::Job reader_;
};

}  // namespace verbena::channel
