// SPDX-License-Identifier: Apache-2.0
#include "lib/async/selector.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

#include "lib/async/selector_fixture.h"

namespace verbena::async {
namespace {

constexpr Nanoseconds long_enough = 10'000'000'000;
constexpr Nanoseconds a_moment = 20'000'000;

class Selectors : public WithEachSelector {
protected:
	void SetUp() override {
		WithEachSelector::SetUp();
		selector_ = make_selector(GetParam()).selector;
	}
	~Selectors() override {
		selector_.reset();
		for (const int fd : open_) close(fd);
	}
	int event_descriptor(unsigned count = 0) {
		open_.push_back(eventfd(count, EFD_NONBLOCK | EFD_CLOEXEC));
		EXPECT_GE(open_.back(), 0);
		return open_.back();
	}
	// The first report within the time; `who` is null if there is none.
	Readiness next(Nanoseconds patience = long_enough) {
		const Nanoseconds deadline = monotonic_now() + patience;
		std::array<Readiness, 1> one;
		while (monotonic_now() < deadline)
			if (selector_->wait(one, deadline - monotonic_now()) == 1) return one[0];
		return {};
	}

	std::unique_ptr<Selector> selector_;
	std::vector<int> open_;
};
INSTANTIATE_TEST_SUITE_P(By, Selectors, each_selector, selector_name);

void put(int fd) {
	const std::uint64_t one = 1;
	ASSERT_EQ(write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
}

TEST_P(Selectors, AChangeIsReportedOnce) {
	int pair[2];
	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	open_.insert(open_.end(), {pair[0], pair[1]});
	int mark = 0;
	selector_->watch_changes(pair[0], &mark);
	const Readiness first = next();
	EXPECT_EQ(first.who, &mark);
	EXPECT_TRUE(first.writable);
	EXPECT_FALSE(first.readable);
	EXPECT_EQ(next(a_moment).who, nullptr) << "it is still writable, which was reported";
	for (int times = 0; times < 2; ++times) {
		ASSERT_EQ(write(pair[1], "x", 1), 1);
		EXPECT_TRUE(next().readable) << "even if the first byte was not read";
	}
}

TEST_P(Selectors, AReadableDescriptorIsReportedUntilItIsRead) {
	int mark = 0;
	const int fd = event_descriptor(1);
	selector_->watch_readable(fd, &mark);
	for (int times = 0; times < 3; ++times) EXPECT_EQ(next().who, &mark);
	std::uint64_t count = 0;
	ASSERT_EQ(read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
	// A report that was pending may still come.
	while (next(a_moment).who != nullptr) {}
	put(fd);
	EXPECT_EQ(next().who, &mark);
}

TEST_P(Selectors, AForgottenDescriptorIsNotReported) {
	int mark = 0, other = 0;
	const int fd = event_descriptor(1), another = event_descriptor(1);
	selector_->watch_readable(fd, &mark);
	selector_->watch_changes(another, &other);
	selector_->forget(fd);
	for (int times = 0; times < 3; ++times) {
		const Readiness news = next(a_moment);
		EXPECT_NE(news.who, &mark);
	}
	selector_->forget(another);
	put(another);
	EXPECT_EQ(next(a_moment).who, nullptr);
}

TEST_P(Selectors, AReusedNumberIsANewDescriptor) {
	std::array<int, 100> marks{};
	for (int& mark : marks) {
		const int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
		selector_->watch_changes(fd, &mark);
		EXPECT_EQ(next().who, &mark);
		selector_->forget(fd);
		close(fd);
	}
}

// More than the ring that io_uring shares holds, and than one wait() returns.
TEST_P(Selectors, ThousandsOfReadyDescriptorsAreAllReported) {
	constexpr std::size_t count = 6000;
	rlimit limit{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < count + 100) GTEST_SKIP() << "too few descriptors (ulimit -Hn)";
	std::vector<char> marks(count);
	for (char& mark : marks) selector_->watch_changes(event_descriptor(), &mark);
	const auto told = [&] {
		std::set<void*> who;
		while (who.size() < count) {
			const Readiness news = next(1'000'000'000);
			if (news.who == nullptr) break;
			who.insert(news.who);
		}
		return who.size();
	};
	EXPECT_EQ(told(), count) << "writable";
	for (int round = 0; round < 2; ++round) {
		for (const int fd : open_) put(fd);
		EXPECT_EQ(told(), count) << "readable";
		for (const int fd : open_) {
			std::uint64_t value = 0;
			ASSERT_EQ(read(fd, &value, sizeof value), static_cast<ssize_t>(sizeof value));
		}
		while (next(a_moment).who != nullptr) {}  // reports that they are writable again
	}
}

TEST_P(Selectors, TheThreadThatPreparedItMayEnd) {
	std::vector<char> marks(1000);
	std::jthread([&] {
		for (char& mark : marks) selector_->watch_readable(event_descriptor(), &mark);
	}).join();
	put(open_[3]);
	EXPECT_EQ(next().who, &marks[3]);
}

// Makes the kernel refuse a system call from now on, as many containers do.
void forbid(unsigned call, unsigned error) {
	std::array<sock_filter, 4> program{{
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	}};
	const sock_fprog filter{.len = program.size(), .filter = program.data()};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(2);
}

struct Forbidden {
	unsigned call, error;
	const char* said;
};

class AForbiddenIoUring : public ::testing::TestWithParam<Forbidden> {};
INSTANTIATE_TEST_SUITE_P(By, AForbiddenIoUring,
	::testing::Values(Forbidden{__NR_io_uring_setup, EPERM, "io_uring_setup: Operation not permitted"},
		Forbidden{__NR_io_uring_setup, ENOSYS, "io_uring_setup: Function not implemented"},
		Forbidden{__NR_io_uring_enter, EPERM, "io_uring_enter: Operation not permitted"}));

TEST_P(AForbiddenIoUring, IsReportedAndTheLoopUsesEpoll) {
	int said[2];
	ASSERT_EQ(pipe(said), 0);
	const pid_t child = fork();
	if (child == 0) {
		alarm(10);
		forbid(GetParam().call, GetParam().error);
		Loop loop({.spin = 0, .selector = SelectorKind::uring});
		const std::string& why = loop.selector_refusal();
		const bool written = write(said[1], why.data(), why.size()) == static_cast<ssize_t>(why.size());
		std::jthread other([&] { loop.stop(); });
		loop.run();
		other.join();
		_exit(written && loop.selector() == SelectorKind::epoll ? 0 : 1);
	}
	close(said[1]);
	std::array<char, 200> text{};
	const ssize_t got = read(said[0], text.data(), text.size());
	close(said[0]);
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))), GetParam().said);
}

}  // namespace
}  // namespace verbena::async
