// SPDX-License-Identifier: Apache-2.0
#include "bench/table/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/table/limits.h"

namespace verbena::bench {
namespace {

class TableFile : public testing::Test {
protected:
	TableFile() { std::filesystem::create_directory(folder_); }
	~TableFile() override { std::filesystem::remove_all(folder_); }

	std::string path() const { return folder_ / "table"; }
	std::string write(const std::string& text) const {
		std::ofstream(path()) << text;
		return path();
	}

private:
	const std::filesystem::path folder_ =
		std::filesystem::temp_directory_path() / ("verbena-table-" + std::to_string(getpid()));
};

TEST_F(TableFile, IsReadAsItIs) {
	EXPECT_EQ(text_of_file(write("a,b\n1,2\n")), "a,b\n1,2\n");
	EXPECT_EQ(text_of_file(write("")), "");
}

TEST_F(TableFile, IsAFileOrAPipe) {
	EXPECT_EQ(text_of_file("/dev/zero").error(), "it is neither a file nor a pipe");
	EXPECT_EQ(text_of_file("/").error(), "it is neither a file nor a pipe");
	EXPECT_EQ(text_of_file(path()).error(), "No such file or directory");
}

TEST_F(TableFile, IsReadUpToItsLimit) {
	EXPECT_TRUE(text_of_file(write(std::string(bytes_max, 'x'))));
	EXPECT_EQ(
		text_of_file(write(std::string(bytes_max + 1, 'x'))).error(), "it has more than 32 MiB, which no table has");
}

TEST(Printable, TextHasNoControlCharacterAndNoByteOutsideUtf8) {
	EXPECT_EQ(printable("RC 64 B, \u00b5s \u20ac \U0001f600"), "RC 64 B, \u00b5s \u20ac \U0001f600");
	EXPECT_EQ(printable("\x1b[2J\x7f\n"), "\\x1b[2J\\x7f\\x0a");
	EXPECT_EQ(printable("R\xff\xc3"), "R\\xff\\xc3");
	EXPECT_EQ(printable("\xc2\x9b\xed\xa0\x80"), "\\xc2\\x9b\\xed\\xa0\\x80");
}

}  // namespace
}  // namespace verbena::bench
