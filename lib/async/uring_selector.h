// A Selector by io_uring: a poll request for each descriptor, which the kernel answers again and again (multishot) as
// it changes. New requests leave together with the next wait.
//
// A request keeps its file open, so forget() cancels it at once and not with the next wait: who closes a socket has
// closed it.
#pragma once

#include <liburing.h>

#include <expected>
#include <vector>

#include "lib/async/selector.h"

namespace verbena::async {

class UringSelector final : public Selector {
public:
	// The error says in a few words why this kernel does not serve it: forbidden, absent, or older than Linux 5.13.
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
	// A descriptor that is watched, or was until its request has ended. Its index names the request.
	struct Watch {
		int fd = -1;
		void* who = nullptr;
		bool level = false;    // a request of one answer, made anew each time, instead of one of many
		bool armed = false;    // a request is with the kernel, or on its way there
		bool forgotten = false;
	};
	struct News {
		std::uint32_t watch;
		std::uint32_t events;
	};

	explicit UringSelector(const io_uring& ring) : ring_(ring) {}
	std::expected<void, std::string> prove_multishot();
	void watch(int fd, bool level, void* who);
	void arm(std::uint32_t index);
	io_uring_sqe* next_request();
	// Moves what the kernel has answered into `news_`.
	void gather();
	void take(const io_uring_cqe& answer);

	io_uring ring_;
	std::vector<Watch> watches_;
	std::vector<std::uint32_t> free_;           // of `watches_`
	std::vector<std::uint32_t> watch_of_;       // by descriptor
	std::vector<std::uint32_t> to_arm_, arming_;
	std::vector<News> news_;
	std::size_t told_ = 0;  // of `news_`
};

}  // namespace verbena::async
