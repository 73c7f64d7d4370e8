// SPDX-License-Identifier: Apache-2.0
// Budget: the memory that all connections of a server may take together, for calls that are not
// answered and for responses that are not sent.
//
// A connection that finds the budget exhausted is not read until there is room, unless it uses no
// more than `small_share`. So clients that hold the whole budget slow down each other, and not a
// client with small calls.
//
// Threads: thread-safe; the connections of all I/O threads share one Budget.
// Lifetime: a Budget outlives its connections and their calls.
#pragma once

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

}  // namespace verbena::rpc
