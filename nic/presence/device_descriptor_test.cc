// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/device_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

namespace verbena::presence {
namespace {

TEST(DeviceDescriptor, DuplicateNamesTheSameDevice) {
	const int fd = open_device_descriptor({.number = 1'048'000, .context = 77}, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	const int duplicate = dup(fd);
	close(fd);
	const auto device = device_of_descriptor(duplicate);
	ASSERT_TRUE(device);
	EXPECT_EQ(device->number, 1'048'000u);
	EXPECT_EQ(device->context, 77u);
	close(duplicate);
}

TEST(DeviceDescriptor, IsClosedOnExecIfTheOpenSaysSo) {
	const int plain = open_device_descriptor({.number = 1}, O_RDWR);
	const int other = open_device_descriptor({.number = 1}, O_RDWR | O_CLOEXEC);
	EXPECT_EQ(fcntl(plain, F_GETFD), 0);
	EXPECT_EQ(fcntl(other, F_GETFD), FD_CLOEXEC);
	close(plain);
	close(other);
}

TEST(DeviceDescriptor, UnknownCommandsFailAndNothingIsReady) {
	const int fd = open_device_descriptor({.number = 1}, O_RDWR);
	pollfd ready{fd, POLLIN | POLLOUT | POLLPRI, 0};
	EXPECT_EQ(poll(&ready, 1, 0), 0);
	char bytes[32] = {};
	EXPECT_EQ(write(fd, bytes, sizeof bytes), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(read(fd, bytes, sizeof bytes), -1) << "it does not wait";
	EXPECT_EQ(errno, EAGAIN);
	EXPECT_EQ(ioctl(fd, _IOWR(0x1b, 1, char[24]), bytes), -1);
	EXPECT_EQ(errno, ENOTTY);
	EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	EXPECT_EQ(errno, ENODEV);
	EXPECT_EQ(device_of_descriptor(fd)->number, 1u);
	close(fd);
}

TEST(DeviceDescriptor, OtherDescriptorsAndTimersAreNoDevices) {
	EXPECT_FALSE(device_of_descriptor(-1));
	EXPECT_FALSE(device_of_descriptor(STDIN_FILENO));
	const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	EXPECT_FALSE(device_of_descriptor(timer));
	const itimerspec armed{.it_interval = {1, 0}, .it_value = {1000, 0}};
	timerfd_settime(timer, 0, &armed, nullptr);
	EXPECT_FALSE(device_of_descriptor(timer));
	close(timer);
}

}  // namespace
}  // namespace verbena::presence
