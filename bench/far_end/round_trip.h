// SPDX-License-Identifier: Apache-2.0
// The core-to-core round trip: the time that a cache line takes there and back between the two
// measuring processes. It decides the rates of small messages, and on a shared machine it changes
// while a benchmark runs, so it is measured before and after each repetition.
//
// The words are in memory that both processes map, each on a cache line of its own. One process
// asks and the other answers; both spin, and give up after two seconds. A third word is the
// receiver's count of delivered messages, which the sender reads when the receiver has died.
//
// Threads: one thread in each process.
// Owns: the descriptor and the mapping.
// Errors: Failure if the memory cannot be made or mapped.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::bench {

class RoundTrip {
public:
	// Makes a new shared page; the other process can inherit fd().
	static RoundTrip create();
	// Maps the page of a descriptor that create() made, and takes the descriptor over.
	static RoundTrip open(int fd);

	RoundTrip(RoundTrip&& other) noexcept;
	RoundTrip& operator=(RoundTrip&&) = delete;
	~RoundTrip();

	int fd() const { return fd_; }

	// Call before the other process begins to answer.
	void reset();
	// Nanoseconds of one round trip, in the fastest of several series: a preempted series says
	// nothing about the cores. Empty if no series was complete in time.
	std::optional<double> ask();
	// Answers one ask() of the other process, or gives up.
	void answer();

	// The receiver's count of delivered messages in the current run.
	std::atomic<std::uint64_t>& delivered() { return page_->delivered; }

private:
	struct Page {
		alignas(128) std::atomic<std::uint32_t> ping;
		alignas(128) std::atomic<std::uint32_t> pong;
		alignas(128) std::atomic<std::uint64_t> delivered;
	};
	explicit RoundTrip(int fd);

	int fd_;
	Page* page_;
};

// The bounds of the classes, which the documents repeat. "smt": hardware threads of one core;
// "near": cores that share a cache; "far": the rest.
inline constexpr double near_from_ns = 85;  // below it: smt
inline constexpr double near_to_ns = 200;   // above it: far
std::string_view class_of(double round_trip_ns);

}  // namespace verbena::bench
