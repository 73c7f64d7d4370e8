// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace verbena::bench {
namespace {

// Reads until all have closed the other end.
std::string all_of(int fd) {
	std::string text;
	char part[64];
	for (ssize_t count; (count = read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(count));
	return text;
}

// Returns what a child writes to its two descriptors, which are these of its parent.
std::string written_by_child(int control_fd, int page_fd) {
	return text_of_child([&] {
		for (const int fd : {control_fd_of_child, page_fd_of_child}) close(fd);
		int control[2], page[2];
		if (pipe2(control, O_CLOEXEC) != 0 || pipe2(page, O_CLOEXEC) != 0) return std::string("no pipe");
		// Out of the way, before anything is put where these are.
		const int from_control = fcntl(control[0], F_DUPFD_CLOEXEC, 30), to_control = fcntl(control[1], F_DUPFD, 30);
		const int from_page = fcntl(page[0], F_DUPFD_CLOEXEC, 30), to_page = fcntl(page[1], F_DUPFD, 30);
		for (const int fd : {control[0], control[1], page[0], page[1]}) close(fd);
		dup2(to_control, control_fd);
		dup2(to_page, page_fd);
		close(to_control);
		close(to_page);
		const ChildProcess child("/bin/sh", {"-c", "echo control >&3; echo page >&4"}, control_fd, page_fd);
		close(control_fd);
		close(page_fd);
		return all_of(from_control) + all_of(from_page);
	});
}

TEST(ChildProcess, HasItsDescriptorsWhereverTheParentHasThem) {
	// The pipe of text_of_child() must not be at the numbers that the child has.
	std::array<int, 2> held{};
	for (int& fd : held) fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	EXPECT_EQ(written_by_child(20, 21), "control\npage\n");
	EXPECT_EQ(written_by_child(3, 4), "control\npage\n");
	EXPECT_EQ(written_by_child(4, 3), "control\npage\n");
	EXPECT_EQ(written_by_child(20, 3), "control\npage\n");
	EXPECT_EQ(written_by_child(4, 20), "control\npage\n");
	for (const int fd : held) close(fd);
}

TEST(TextOfChild, IsTheWholeTextOfAnotherProcess) {
	EXPECT_NE(text_of_child([] { return std::to_string(getpid()); }), std::to_string(getpid()));
	const std::string much(1 << 20, 'x');  // more than a pipe holds
	EXPECT_EQ(text_of_child([&] { return much; }), much);
	EXPECT_EQ(text_of_child([] { return std::string(); }), "");
}

}  // namespace
}  // namespace verbena::bench
