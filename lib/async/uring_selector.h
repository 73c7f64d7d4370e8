// SPDX-License-Identifier: Apache-2.0
// A Selector by io_uring: one poll request for each descriptor. For changes it is a multishot
// request, which the kernel answers again and again; for levels it is answered once and made anew.
// New requests are submitted together with the next wait. The contract is that of Selector.
//
// Invariants: the kernel holds a reference to the file of a pending request. So forget() cancels
//   the request at once and not with the next wait; otherwise a socket would stay open after
//   close().
#pragma once

#include <liburing.h>

#include <expected>
#include <vector>

#include "lib/async/selector.h"

namespace verbena::async {

class UringSelector final : public Selector {
public:
	// Errors: why this kernel cannot be used: io_uring is forbidden, absent, or older than Linux
	//   5.13.
	static std::expected<std::unique_ptr<UringSelector>, std::string> open();
	~UringSelector() override;
	UringSelector(const UringSelector&) = delete;
	UringSelector& operator=(const UringSelector&) = delete;

	SelectorKind kind() const override { return SelectorKind::uring; }
	void watch_changes(int fd, void* who) override { watch(fd, false, who); }
	void watch_readable(int fd, void* who) override { watch(fd, true, who); }
	void forget(int fd) override;
	std::size_t wait(std::span<Readiness> into, Nanoseconds patience) override;

private:
	// A watched descriptor, or one that was forgotten and whose request has not ended yet. Its
	// index is the user_data of its requests.
	struct Watch {
		int fd = -1;
		void* who = nullptr;
		bool level = false;    // watch_readable(): requests of one answer each
		bool armed = false;    // a request is pending in the kernel, or queued for it
		bool forgotten = false;
	};
	// An answer of the kernel that wait() has not reported yet.
	struct News {
		std::uint32_t watch;
		std::uint32_t events;
	};

	explicit UringSelector(const io_uring& ring) : ring_(ring) {}
	// Errors if the kernel has no multishot polls.
	std::expected<void, std::string> probe_multishot();
	void watch(int fd, bool level, void* who);
	// Queues the poll request of a watch.
	void arm(std::uint32_t index);
	// A free submission entry; submits the queued ones if there is none.
	io_uring_sqe* next_request();
	// Moves all answers of the kernel into `news_`.
	void gather();
	// Handles one answer.
	void take(const io_uring_cqe& answer);

	io_uring ring_;
	std::vector<Watch> watches_;
	std::vector<std::uint32_t> free_;           // indexes of unused `watches_`
	std::vector<std::uint32_t> watch_of_;       // index into `watches_`, by descriptor
	// Watches whose request has ended; the next wait() makes new ones.
	std::vector<std::uint32_t> to_arm_, arming_;
	std::vector<News> news_;
	std::size_t told_ = 0;  // number of `news_` that were reported
};

}  // namespace verbena::async
