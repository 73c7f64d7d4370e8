// A queue of events that a program reads through a descriptor: one eventfd count for each event, so that it is never
// readable without one. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::verbs {

template <class Event> class EventQueue {
public:
	EventQueue() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
	~EventQueue() {
		if (fd_ >= 0) close(fd_);
	}
	EventQueue(const EventQueue&) = delete;
	EventQueue& operator=(const EventQueue&) = delete;

	int fd() const { return fd_; }  // -1: none could be had

	void push(const Event& event) {
		const std::lock_guard lock(mutex_);
		events_.push_back(event);
		const std::uint64_t one = 1;
		[[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
	}

	// Waits unless the program made the descriptor non-blocking: wait(fd) returns true when the descriptor is readable,
	// and false with errno set. False: errno says why.
	template <class Wait> bool pop(Event& event, Wait&& wait) {
		for (;;) {
			pollfd readable{fd_, POLLIN, 0};
			if (::poll(&readable, 1, 0) == 0 && !(fcntl(fd_, F_GETFL) & O_NONBLOCK) && !wait(fd_)) return false;
			std::uint64_t one;
			if (read(fd_, &one, sizeof one) != sizeof one) return false;
			const std::lock_guard lock(mutex_);
			if (events_.empty()) continue;  // its object was destroyed meanwhile
			event = events_.front();
			events_.pop_front();
			return true;
		}
	}

	// Forgets the events of an object that goes.
	template <class Predicate> void remove_if(Predicate&& predicate) {
		const std::lock_guard lock(mutex_);
		for (auto at = events_.begin(); at != events_.end();) {
			if (!predicate(*at)) {
				++at;
				continue;
			}
			at = events_.erase(at);
			take_count();
		}
	}

private:
	// Never blocks: the program may be about to take the count itself.
	void take_count() const {
		pollfd readable{fd_, POLLIN, 0};
		std::uint64_t one;
		// NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
		if (::poll(&readable, 1, 0) == 1 && read(fd_, &one, sizeof one) < 0) return;
	}

	int fd_;
	std::mutex mutex_;
	std::deque<Event> events_;
};

}  // namespace verbena::verbs
