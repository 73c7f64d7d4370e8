// SPDX-License-Identifier: Apache-2.0
// The descriptor of one of our character devices: what open("/dev/infiniband/uverbsN") returns, and
// ibv_context::cmd_fd.
//
// It is a timer that is never armed, because such a descriptor behaves as that of a device which
// understands no command: poll reports nothing, write fails with EINVAL, ioctl with ENOTTY and mmap
// with ENODEV. It is always non-blocking: read fails with EAGAIN, where a device's fails with
// EINVAL, and would otherwise wait for ever. The timer's interval, which has no effect, says which
// device it is, also to a duplicate of the descriptor and to one that was sent to another process.
//
// Threads: any, also signal handlers.
#pragma once

#include <cstdint>
#include <optional>

namespace verbena::presence {

struct DeviceDescriptor {
	std::uint32_t number = 0;  // N of uverbsN
	std::uint32_t context = 0;  // the open context; 0 for a descriptor that open(2) returned
};

inline constexpr std::uint32_t context_number_max = (1 << 20) - 1;

// Returns a new descriptor, close-on-exec if the flags have O_CLOEXEC; or -1 with errno set.
int open_device_descriptor(const DeviceDescriptor& device, int flags) noexcept;

// The device of a descriptor; nothing if the descriptor is of another kind. Keeps errno.
std::optional<DeviceDescriptor> device_of_descriptor(int fd) noexcept;

}  // namespace verbena::presence
