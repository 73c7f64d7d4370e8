// SPDX-License-Identifier: Apache-2.0
// A queue of events whose descriptor a program can poll, as that of ibv_create_comp_channel(3).
//
// Threads: any; one mutex inside.
// Owns: an eventfd.
// Errors: the constructor throws std::bad_alloc. push() fails only if it has used all places that
//   were reserved and there is no memory for another.
// Invariants: the eventfd counts the queued events, so it is readable only while there is one. Both
//   change together under the mutex.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <sys/eventfd.h>
#include <unistd.h>

#include "nic/engine/engine.h"
#include "nic/engine/eventfd.h"
#include "nic/engine/waiting.h"

namespace verbena::verbs {

template <class Event> class EventQueue {
public:
	explicit EventQueue(std::size_t places = 0)
		: lists_(std::make_unique<Lists>(places)),
		  places_(places),
		  fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)),
		  error_(fd_ < 0 ? errno : 0),
		  waiting_(fd_) {}
	~EventQueue() {
		if (fd_ >= 0) close(fd_);
	}
	EventQueue(const EventQueue&) = delete;
	EventQueue& operator=(const EventQueue&) = delete;

	int fd() const { return fd_; }  // -1 if eventfd() failed
	int error() const { return error_; }  // the errno value of eventfd(); 0 if it worked

	// Adds a place for the events of an object. Throws std::bad_alloc.
	void reserve_place() {
		std::list<Event> place(1);
		const std::lock_guard lock(mutex_);
		lists_->spare.splice(lists_->spare.end(), place);
		++places_;
	}
	// Takes back the place of an object that is being destroyed, after remove_if().
	void release_place() {
		const std::lock_guard lock(mutex_);
		--places_;
		if (!lists_->spare.empty()) lists_->spare.pop_front();
	}

	// Uses a free place, or memory. False: there is neither, and the event is lost. An object that
	// has reserved a place and has at most one event in the queue loses none.
	bool push(const Event& event) noexcept {
		const std::lock_guard lock(mutex_);
		if (lists_->spare.empty() && !allocate_place()) return false;
		lists_->spare.front() = event;
		lists_->events.splice(lists_->events.end(), lists_->spare, lists_->spare.begin());
		engine::signal_eventfd(fd_);
		return true;
	}

	// Takes the oldest event. If there is none, it waits as Engine::drive_until_readable(), and
	// fails with EAGAIN if the program has made the descriptor non-blocking. False: there is no
	// event, and errno has the reason unless `call` says that the thread is to sleep.
	bool pop(Event& event, engine::Engine& engine, engine::BlockingCall& call) {
		while (!take(event)) {
			if (fcntl(fd_, F_GETFL) & O_NONBLOCK) return errno = EAGAIN, false;
			if (engine.drive_until_readable(waiting_, call) != engine::Engine::Wait::ready) return false;
		}
		return true;
	}

	// Removes the events of an object that is being destroyed.
	template <class Predicate> void remove_if(Predicate&& predicate) {
		const std::lock_guard lock(mutex_);
		for (auto at = lists_->events.begin(); at != lists_->events.end();) {
			const auto event = at++;
			if (predicate(*event)) remove(event);
		}
	}

private:
	// On the heap, because a std::list in the objects of objects.h would make offsetof() undefined.
	struct Lists {
		explicit Lists(std::size_t places) : spare(places) {}
		std::list<Event> events;
		std::list<Event> spare;  // free places
	};

	bool take(Event& event) {
		const std::lock_guard lock(mutex_);
		if (lists_->events.empty()) return false;
		event = lists_->events.front();
		remove(lists_->events.begin());
		return true;
	}
	void remove(typename std::list<Event>::iterator at) {
		std::uint64_t one;
		engine::read_if_readable(fd_, &one, sizeof one);
		if (lists_->spare.size() < places_) lists_->spare.splice(lists_->spare.end(), lists_->events, at);
		else lists_->events.erase(at);
	}
	bool allocate_place() noexcept {
		try {
			lists_->spare.emplace_back();
			return true;
		} catch (const std::bad_alloc&) {
			return false;
		}
	}

	std::mutex mutex_;
	std::unique_ptr<Lists> lists_;
	std::size_t places_;
	int fd_;
	int error_;
	engine::WaitSet waiting_;
};

}  // namespace verbena::verbs
