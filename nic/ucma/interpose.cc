// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/interpose.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/engine/waiting.h"
#include "nic/presence/got.h"

namespace verbena::ucma {

namespace {

std::atomic<Kernel*> the_kernel{nullptr};

// open(2) is variadic. Here the third argument has a name; nic/presence/libc.h says why that works.
int redirected_open(const char* path, int flags, mode_t mode) {
	// "/dev/infiniband/rdma_cm", or the other path by which librdmacm looks for the same character
	// device.
	if (!path) return errno = EFAULT, -1;
	if (!std::string_view(path).ends_with("/rdma_cm")) return ::open(path, flags, mode);
	using Opened = std::expected<int, int>;
	const auto fd = engine::bounded(
		{}, [&] { return the_kernel.load(std::memory_order_acquire)->open_channel(); },
		[](int error) { return Opened(std::unexpected(error)); });
	if (fd) return *fd;
	return log::refuse(fd.error(), "rdma_create_event_channel: no channel: %s", std::strerror(fd.error())), -1;
}

// The number of the kernel's rdma_cm device, or 0. If the kernel's module is loaded, though without
// an RDMA device, librdmacm insists on this number.
dev_t device_number_of_the_kernels() {
	unsigned major_number = 0, minor_number = 0;
	if (std::FILE* file = std::fopen("/sys/class/misc/rdma_cm/dev", "re")) {
		if (std::fscanf(file, "%u:%u", &major_number, &minor_number) != 2) major_number = minor_number = 0;
		std::fclose(file);
	}
	return makedev(major_number, minor_number);
}

int redirected_fstat(int fd, struct stat* status) {
	const int result = ::fstat(fd, status);
	if (result == 0 && the_kernel.load(std::memory_order_acquire)->is_channel(fd)) {
		status->st_mode = S_IFCHR | 0600;
		status->st_rdev = device_number_of_the_kernels();
	}
	return result;
}

struct Written {
	bool to_channel;
	ssize_t result;
};

// One stretch of a command between two sleeps, in a function of its own (nic/engine/waiting.h).
[[gnu::noinline]] Written write_command(int fd, const void* bytes, std::size_t count, engine::BlockingCall* call) {
	const auto done = the_kernel.load(std::memory_order_acquire)->command(fd, bytes, count, call);
	if (!done && call && call->slept && call->error != EINTR) {
		// Another thread has closed the channel during the sleep. In the kernel, a wait for an
		// event goes on until a signal comes; programs cancel such a thread, or exit.
		call->sleep = engine::BlockingCall::Sleep::poll;
		call->fd = call->doorbell = -1;
		call->timeout = never;
		return {true, -1};
	}
	return {done.has_value(), done.value_or(-1)};
}

bool is_get_event(const void* bytes, std::size_t count) {
	rdma_ucm_cmd_hdr header;
	if (count < sizeof header) return false;
	std::memcpy(&header, bytes, sizeof header);
	return header.cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

ssize_t redirected_write(int fd, const void* bytes, std::size_t count) {
	const Written written = is_get_event(bytes, count)
		? engine::sleeping([=](engine::BlockingCall& call) { return write_command(fd, bytes, count, &call); })
		: write_command(fd, bytes, count, nullptr);
	return written.to_channel ? written.result : ::write(fd, bytes, count);
}

int redirected_close(int fd) {
	return engine::bounded(
		"rdma_destroy_event_channel",
		[&] { return the_kernel.load(std::memory_order_acquire)->close_channel(fd) ? 0 : ::close(fd); },
		[](int) { return -1; });
}

ibv_ah* redirected_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
	return engine::bounded(
		"ibv_create_ah", [&] { return the_kernel.load(std::memory_order_acquire)->host().create_ah(pd, attributes); },
		[](int) -> ibv_ah* { return nullptr; });
}

// rdma_destroy_qp ignores the result and forgets the queue pair. So EBUSY, for a queue pair that is
// attached to a multicast group, would leave it and the membership of the host behind.
int redirected_destroy_qp(ibv_qp* qp) {
	const Host& host = the_kernel.load(std::memory_order_acquire)->host();
	engine::bounded("ibv_destroy_qp", [&] { return host.leave_groups(qp), 0; }, [](int error) { return error; });
	return host.destroy_qp(qp);
}

const presence::Redirection redirections[] = {
	{"open", reinterpret_cast<void*>(redirected_open)},
	{"open64", reinterpret_cast<void*>(redirected_open)},
	{"fstat", reinterpret_cast<void*>(redirected_fstat)},
	{"fstat64", reinterpret_cast<void*>(redirected_fstat)},
	{"write", reinterpret_cast<void*>(redirected_write)},
	{"close", reinterpret_cast<void*>(redirected_close)},
	{"ibv_create_ah", reinterpret_cast<void*>(redirected_create_ah)},
	{"ibv_destroy_qp", reinterpret_cast<void*>(redirected_destroy_qp)},
};

}  // namespace

void redirect_if_librdmacm(void* caller, Kernel& kernel) {
	const link_map* object = presence::object_of(caller);
	if (!object || std::string_view(object->l_name).find("librdmacm") == std::string_view::npos) return;
	the_kernel.store(&kernel, std::memory_order_release);
	// At each call: a librdmacm that was unloaded and loaded again has fresh slots, perhaps at the
	// same address.
	presence::redirect(*object, redirections);
}

}  // namespace verbena::ucma
