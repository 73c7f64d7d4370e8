// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/device_descriptor.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::presence {
namespace {

// Seconds of the interval: "VER" and the number of the context; far below the kernel's maximum.
constexpr std::int64_t mark = std::int64_t{0x564} << 20;

}  // namespace

int open_device_descriptor(const DeviceDescriptor& device, int flags) noexcept {
	const int fd = timerfd_create(CLOCK_MONOTONIC, (flags & O_CLOEXEC ? TFD_CLOEXEC : 0) | TFD_NONBLOCK);
	if (fd < 0) return -1;
	const itimerspec disarmed{
		.it_interval = {mark + (device.context & context_number_max), static_cast<long>(device.number)},
		.it_value = {}};
	if (timerfd_settime(fd, 0, &disarmed, nullptr) == 0) return fd;
	const int error = errno;
	close(fd);
	errno = error;
	return -1;
}

std::optional<DeviceDescriptor> device_of_descriptor(int fd) noexcept {
	const int saved_errno = errno;
	itimerspec now{};
	const bool timer = timerfd_gettime(fd, &now) == 0;
	errno = saved_errno;
	if (!timer || now.it_value.tv_sec || now.it_value.tv_nsec) return std::nullopt;
	const std::int64_t context = now.it_interval.tv_sec - mark;
	if (context < 0 || context > context_number_max) return std::nullopt;
	return DeviceDescriptor{static_cast<std::uint32_t>(now.it_interval.tv_nsec), static_cast<std::uint32_t>(context)};
}

}  // namespace verbena::presence
