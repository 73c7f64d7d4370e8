// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/round_trip.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/time.h"
#include "bench/far_end/failure.h"
#include "lib/verbs/objects.h"

namespace verbena::bench {
namespace {

constexpr std::uint32_t series = 8;
constexpr std::uint32_t trips = 200;
constexpr std::uint64_t patience_ns = 2'000'000'000;

// Spins until the word has the value; returns false after the deadline.
bool await(const std::atomic<std::uint32_t>& word, std::uint32_t value, std::uint64_t deadline) {
	for (std::uint32_t spins = 1;; ++spins) {
		if (word.load(std::memory_order_acquire) == value) return true;
		__builtin_ia32_pause();
		if (spins % 1024 != 0) continue;
		if (monotonic_now() > deadline) return false;
		sched_yield();  // the other process may be waiting for this core
	}
}

}  // namespace

RoundTrip RoundTrip::create() {
	int fd = memfd_create("round-trip", MFD_CLOEXEC);
	// Some containers refuse memfd_create; a file that was never linked is as good.
	for (const char* folder : {"/dev/shm", "/tmp"})
		if (fd < 0 && errno != EMFILE) fd = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(Page)) != 0) throw Failure(lib::failure("shared memory", errno));
	return RoundTrip(fd);
}

RoundTrip RoundTrip::open(int fd) { return RoundTrip(fd); }

RoundTrip::RoundTrip(int fd) : fd_(fd) {
	void* at = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) throw Failure(lib::failure("mmap of the shared page", errno));
	page_ = static_cast<Page*>(at);
}

RoundTrip::RoundTrip(RoundTrip&& other) noexcept
	: fd_(std::exchange(other.fd_, -1)), page_(std::exchange(other.page_, nullptr)) {}

RoundTrip::~RoundTrip() {
	if (page_ != nullptr) munmap(page_, sizeof(Page));
	if (fd_ >= 0) close(fd_);
}

void RoundTrip::reset() {
	page_->ping.store(0);
	page_->pong.store(0);
}

std::optional<double> RoundTrip::ask() {
	const std::uint64_t deadline = monotonic_now() + patience_ns;
	std::uint64_t best = UINT64_MAX;
	for (std::uint32_t value = 0, each = 0; each < series; ++each) {
		const std::uint64_t start = monotonic_now();
		for (std::uint32_t i = 0; i < trips; ++i) {
			page_->ping.store(++value, std::memory_order_release);
			if (await(page_->pong, value, deadline)) continue;
			if (best == UINT64_MAX) return std::nullopt;
			return static_cast<double>(best) / trips;
		}
		best = std::min(best, monotonic_now() - start);
	}
	return static_cast<double>(best) / trips;
}

void RoundTrip::answer() {
	const std::uint64_t deadline = monotonic_now() + patience_ns;
	for (std::uint32_t value = 1; value <= series * trips; ++value) {
		if (!await(page_->ping, value, deadline)) return;
		page_->pong.store(value, std::memory_order_release);
	}
}

std::string_view class_of(double round_trip_ns) {
	return round_trip_ns < near_from_ns ? "smt" : round_trip_ns <= near_to_ns ? "near" : "far";
}

}  // namespace verbena::bench
