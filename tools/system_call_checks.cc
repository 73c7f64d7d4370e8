// SPDX-License-Identifier: Apache-2.0
// The system calls that the NIC and the library use, each tried once. A kernel may be too old for
// one, and a container or a security module may forbid it by a seccomp filter.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/descriptor.h"
#include "lib/async/uring_selector.h"
#include "tools/machine_checks.h"

namespace verbena::tools {
namespace {

// Both make the finding of a system call that just ran: errno must still be that of the call.
Finding needed(const char* subject, bool works, const char* advice) {
	const int error = errno;
	if (works) return {subject, Level::good, "works", ""};
	return {subject, Level::problem, std::strerror(error), advice};
}
Finding useful(const char* subject, bool works, const char* cost) {
	Finding finding = needed(subject, works, cost);
	if (finding.level == Level::problem) finding.level = Level::note;
	return finding;
}

Finding check_memfd() {
	const Descriptor fd(memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	const int error = errno;
	const Descriptor file(fd ? -1 : open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	errno = error;
	if (!fd && !file)
		return needed("memfd_create", false,
			"there is no writable /dev/shm either, so processes can share no memory: allow memfd_create in the seccomp "
			"profile, or mount a tmpfs at /dev/shm");
	return useful("memfd_create", bool(fd),
		"memory that processes share is in unlinked files in /dev/shm instead, without seals, and counts against its "
		"size: allow it in the seccomp profile");
}

Finding check_seals() {
	const Descriptor fd(memfd_create("verbena-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	const bool works = fd && fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0 &&
		fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
	return useful("seals of memfd", works,
		"another process of this user can end a program by truncating memory that they share, and processes outside of "
		"this sandbox refuse unsealed memory: use Linux 5.1 or later, and allow fcntl's F_ADD_SEALS in the seccomp "
		"profile");
}

Finding check_eventfd() {
	const Descriptor fd(eventfd(0, EFD_CLOEXEC));
	return needed("eventfd", bool(fd), "wake-ups need it: allow it in the seccomp profile");
}

Finding check_getrandom() {
	std::uint64_t random;
	return useful("getrandom", getrandom(&random, sizeof random, GRND_NONBLOCK) == sizeof random,
		"/dev/urandom gives the same bytes more slowly: allow it in the seccomp profile");
}

// The engine's lock is a futex that hands the priority of a waiter to the thread that holds it.
Finding check_priority_futex() {
	std::atomic<std::uint32_t> word = 0;
	const bool works = syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, nullptr, nullptr, 0) == 0 &&
		syscall(SYS_futex, &word, FUTEX_UNLOCK_PI_PRIVATE, 0, nullptr, nullptr, 0) == 0;
	return needed("futex with priority inheritance", works,
		"the NIC's lock needs it: use a kernel with CONFIG_FUTEX_PI, and allow FUTEX_LOCK_PI in the seccomp profile");
}

Finding check_epoll_pwait2() {
	const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
	const Descriptor ready(eventfd(1, EFD_CLOEXEC));
	epoll_event event{.events = EPOLLIN, .data = {}};
	epoll_ctl(epoll.get(), EPOLL_CTL_ADD, ready.get(), &event);
	const timespec limit{};
	const bool works = syscall(SYS_epoll_pwait2, epoll.get(), &event, 1, &limit, nullptr, 0) == 1;
	return useful("epoll_pwait2", works,
		"the NIC sleeps by ppoll and epoll_wait instead, a second system call for each wake-up: use Linux 5.11 or "
		"later, or allow it in the seccomp profile");
}

Finding check_pidfd() {
	const Descriptor fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
	return useful("pidfd_open", bool(fd), "a peer's death is noticed only by its socket: use Linux 5.3 or later");
}

Finding check_udp_option(const char* subject, int option, int value, const char* cost) {
	const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	return useful(subject, setsockopt(fd.get(), SOL_UDP, option, &value, sizeof value) == 0, cost);
}

Finding check_io_uring() {
	const char* const subject = "io_uring";
	const auto selector = async::UringSelector::open();
	if (selector) return {subject, Level::good, "works", ""};
	return {subject, Level::note, selector.error(),
		"only programs of this project that are started with --engine uring use it; they use epoll instead"};
}

Finding check_abstract_name() {
	const Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	sockaddr_un name{.sun_family = AF_UNIX};
	const std::string text = fmt::format("@verbena-doctor/{}", getpid());
	std::memcpy(name.sun_path + 1, text.data() + 1, text.size() - 1);
	const bool works = fd &&
		bind(fd.get(), reinterpret_cast<sockaddr*>(&name),
			static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size())) == 0;
	return needed("abstract Unix socket names", works,
		"processes of one host find each other by these names: remove the sandbox rule that forbids them");
}

}  // namespace

Findings check_system_calls() {
	return {check_memfd(), check_seals(), check_eventfd(), check_getrandom(), check_priority_futex(),
		check_epoll_pwait2(), check_pidfd(),
		check_udp_option("UDP segmentation offload (GSO)", UDP_SEGMENT, 1024,
			"packets between hosts are sent one by one, which is slower: use Linux 4.18 or later"),
		check_udp_option("UDP receive offload (GRO)", UDP_GRO, 1,
			"packets between hosts are received one by one, which is slower: use Linux 5.0 or later"),
		check_io_uring(), check_abstract_name()};
}

}  // namespace verbena::tools
