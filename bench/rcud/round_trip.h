// The core-to-core round trip: how long a cache line takes there and back between the two measuring processes. On
// shared machines it changes under a measurement's feet, and it decides small-message rates, so it is taken before and
// after each repetition.
//
// Words on lines of their own, in shared memory that both processes map. One side asks, the other answers, both
// spinning; both give up after half a second. A third word is the receiver's count while it runs, read only when the
// receiver has died.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::rcud {

class RoundTrip {
public:
	// A fresh shared page; `fd` can be inherited by the other process.
	static RoundTrip create();
	// The page behind a descriptor that create() made.
	static RoundTrip open(int fd);

	RoundTrip(RoundTrip&& other) noexcept;
	RoundTrip& operator=(RoundTrip&&) = delete;
	~RoundTrip();

	int fd() const { return fd_; }

	// Before the other side is told to answer.
	void reset();
	// Nanoseconds of the fastest of several series (a preempted series says nothing of the cores); empty if nobody
	// answered in time.
	std::optional<double> ask();
	void answer();

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

// smt: below 60 ns (hardware threads of one core); near: below 200 ns; far: the rest.
std::string_view class_of(double round_trip_ns);

}  // namespace verbena::rcud
