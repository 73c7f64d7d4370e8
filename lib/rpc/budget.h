// SPDX-License-Identifier: Apache-2.0
// Budget: the memory that all connections of a server may take together, for calls that are not
// answered, items of streams that are not read, and responses that are not sent.
//
// A connection that finds the budget exhausted is not read until there is room, unless it uses no
// more than `small_share`. So clients that hold the whole budget slow down each other, and not a
// client with small calls.
//
// Threads: thread-safe; the connections of all I/O threads share one Budget.
// Lifetime: a Budget outlives its connections and their calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace verbena::rpc {

class Budget {
public:
	static constexpr std::size_t small_share = 64 << 10;  // bytes that a connection may always use

	explicit Budget(std::size_t bytes_max) : max_(bytes_max) {}
	void take(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
	void give_back(std::size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
	std::size_t used() const { return used_.load(std::memory_order_relaxed); }
	bool exhausted() const { return used() >= max_; }

private:
	std::size_t max_;
	std::atomic<std::size_t> used_{0};
};

// One connection's part of a Budget; its destructor gives back what is left.
//
// Threads: those of the connection.
class HeldBytes {
public:
	explicit HeldBytes(Budget& budget) : budget_(budget) {}
	~HeldBytes() { budget_.give_back(bytes_); }
	HeldBytes(const HeldBytes&) = delete;
	HeldBytes& operator=(const HeldBytes&) = delete;

	Budget& budget() const { return budget_; }
	std::size_t bytes() const { return bytes_; }
	void take(std::size_t bytes) {
		bytes_ += bytes;
		budget_.take(bytes);
	}
	void give_back(std::size_t bytes) {
		bytes_ -= bytes;
		budget_.give_back(bytes);
	}

private:
	Budget& budget_;
	std::size_t bytes_ = 0;
};

// The part of a Budget that the unread items of one connection's streams take, with a limit of its
// own. A stream that finds no room must end: if the connection were not read instead, a function
// that reads no items before another frame arrives would wait forever.
//
// Threads: those of the connection.
// Lifetime: shared by the connection and its streams, which may live longer.
class ItemBytes {
public:
	ItemBytes(Budget& budget, std::size_t bytes_max) : held_(budget), max_(bytes_max) {}
	// False: there is no room. A connection may always use `small_share`.
	bool take(std::size_t bytes) {
		const std::size_t max = held_.budget().exhausted() ? std::min(max_, Budget::small_share) : max_;
		if (held_.bytes() + bytes > max) return false;
		held_.take(bytes);
		return true;
	}
	void give_back(std::size_t bytes) { held_.give_back(bytes); }
	std::size_t bytes() const { return held_.bytes(); }

private:
	HeldBytes held_;
	std::size_t max_;
};

}  // namespace verbena::rpc
