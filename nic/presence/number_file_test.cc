// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/number_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace verbena::presence {
namespace {

std::string text_at(int fd) {
	char text[64];
	const ssize_t length = pread(fd, text, sizeof text, 0);
	return {text, static_cast<std::size_t>(length > 0 ? length : 0)};
}

class NumberFileTest : public testing::Test {
protected:
	void SetUp() override { ASSERT_GE(fd_, 0); }
	void TearDown() override { close(fd_); }

	NumberFile file_ = *NumberFile::create(7);
	int fd_ = file_.open(O_RDONLY | O_CLOEXEC);
};

TEST_F(NumberFileTest, DescriptorShowsTheNumberOfTheMomentOfEachRead) {
	EXPECT_EQ(text_at(fd_), "7\n");
	for (const std::uint64_t number : {8ull, 9ull, 10ull, 9'999'999ull, 10'000'000ull, 10'000'001ull,
			 1'234'567'890'123ull, 18'446'744'073'709'551'614ull, 18'446'744'073'709'551'615ull}) {
		file_.show(number);
		EXPECT_EQ(text_at(fd_), std::to_string(number) + '\n');
	}
}

TEST_F(NumberFileTest, NumberMayBecomeShorter) {
	file_.show(123'456'789'012);
	file_.show(3);
	EXPECT_EQ(text_at(fd_), "3\n");
}

TEST_F(NumberFileTest, StreamReadsTheNewNumberAfterRewind) {
	std::FILE* stream = fdopen(dup(fd_), "r");
	ASSERT_EQ(setvbuf(stream, nullptr, _IONBF, 0), 0);
	unsigned long long number = 0;
	EXPECT_EQ(fscanf(stream, "%llu", &number), 1);
	EXPECT_EQ(number, 7u);
	file_.show(42);
	std::rewind(stream);
	EXPECT_EQ(fscanf(stream, "%llu", &number), 1);
	EXPECT_EQ(number, 42u);
	std::fclose(stream);
}

TEST_F(NumberFileTest, DescriptorsHaveTheirOwnPositionsAndCannotWrite) {
	char byte;
	ASSERT_EQ(read(fd_, &byte, 1), 1);
	const int other = file_.open(O_RDONLY);
	EXPECT_EQ(lseek(other, 0, SEEK_CUR), 0);
	EXPECT_EQ(fcntl(other, F_GETFD), 0);
	EXPECT_EQ(fcntl(fd_, F_GETFD), FD_CLOEXEC);
	EXPECT_EQ(write(other, "1", 1), -1);
	EXPECT_EQ(errno, EBADF);
	close(other);
}

TEST_F(NumberFileTest, KnowsItsDescriptorsUntilTheyAreClosed) {
	EXPECT_TRUE(file_.is_at(fd_));
	const auto another = NumberFile::create(7);
	const int other = another->open(O_RDONLY);
	EXPECT_FALSE(file_.is_at(other));
	close(other);
	EXPECT_FALSE(another->is_at(other));
}

TEST_F(NumberFileTest, ChildOfAForkLeavesTheFileToItsParent) {
	const pid_t child = fork();
	if (child == 0) {
		file_.abandon_after_fork();
		_exit(text_at(fd_) == "7\n" ? 0 : 1);
	}
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	file_.show(8);
	EXPECT_EQ(text_at(fd_), "8\n");
}

}  // namespace
}  // namespace verbena::presence
