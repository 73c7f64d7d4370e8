// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace verbena::bench {
namespace {

constexpr Column one_column[] = {{"size", Kind::count, Role::cell, true}};

class Output : public ::testing::Test {
protected:
	Output() { std::filesystem::create_directory(folder_); }
	~Output() override { std::filesystem::remove_all(folder_); }
	std::string path(const char* name) const { return (folder_ / name).string(); }
	std::string text(const char* name) const {
		std::ifstream file(folder_ / name);
		std::stringstream all;
		all << file.rdbuf();
		return all.str();
	}
	void put(const char* name, const char* what) const { std::ofstream(folder_ / name) << what; }
	std::size_t files() const {
		return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
	}

	const Table table_{.rows = {{{"size", 8}}}};
	const std::filesystem::path folder_ =
		std::filesystem::temp_directory_path() / ("output_test." + std::to_string(getpid()));
};

TEST_F(Output, APathThatCannotBeWrittenIsAnErrorBeforeAnythingIsMeasured) {
	const auto files = OutputFiles::open({.csv = path("rows.csv"), .json = "/no/such/folder/rows.json"}, one_column);
	ASSERT_FALSE(files);
	EXPECT_EQ(files.error(), "cannot write /no/such/folder/rows.json: No such file or directory");
}

// The second table replaced the first one, and the program ended with success.
TEST_F(Output, TwoTablesHaveTwoFiles) {
	const auto error_of = [&](const std::string& csv, const std::string& json) {
		const auto opened = OutputFiles::open({.csv = csv, .json = json}, one_column);
		return opened ? "" : opened.error();
	};
	EXPECT_EQ(error_of(path("rows"), path("rows")), path("rows") + " is named for two tables: name two files");
	EXPECT_EQ(error_of(path("rows"), path("./rows")), path("./rows") + " is named for two tables: name two files");
	EXPECT_EQ(files(), 0u) << "nothing is left";
	put("real.csv", "earlier");
	std::filesystem::create_hard_link(path("real.csv"), path("hard.csv"));
	std::filesystem::create_symlink("real.csv", path("link.csv"));
	EXPECT_NE(error_of(path("real.csv"), path("hard.csv")), "");
	EXPECT_NE(error_of(path("link.csv"), path("real.csv")), "");
	EXPECT_EQ(error_of(path("real.csv"), path("other.csv")), "");
	EXPECT_EQ(error_of("/dev/null", "/dev/null"), "") << "a device is no file that is lost";
	EXPECT_EQ(text("real.csv"), "earlier");
}

TEST_F(Output, AnEarlierTableStaysUntilThereIsANewOne) {
	put("rows.csv", "earlier");
	auto files = OutputFiles::open({.csv = path("rows.csv")}, one_column);
	ASSERT_TRUE(files) << files.error();
	EXPECT_EQ(text("rows.csv"), "earlier");
	ASSERT_TRUE(files->write_so_far(table_));
	EXPECT_EQ(text("rows.csv"), "size\n8\n");
	EXPECT_EQ(this->files(), 1u) << "no part of a file is left";
}

TEST_F(Output, AFileThatGotNoTableIsNotLeftEmpty) {
	put("old.csv", "earlier");
	{ const auto files = OutputFiles::open({.csv = path("new.csv"), .json = path("old.csv")}, one_column); }
	EXPECT_EQ(this->files(), 1u);
	EXPECT_EQ(text("old.csv"), "earlier");
}

TEST_F(Output, ALinkStaysALink) {
	put("rows.csv", "earlier");
	std::filesystem::create_symlink(path("rows.csv"), path("link.csv"));
	auto files = OutputFiles::open({.csv = path("link.csv")}, one_column);
	ASSERT_TRUE(files->write_last(table_));
	EXPECT_TRUE(std::filesystem::is_symlink(path("link.csv")));
	EXPECT_EQ(text("rows.csv"), "size\n8\n");
}

TEST_F(Output, AFullDiskIsAnErrorThatNamesTheFile) {
	auto files = OutputFiles::open({.csv = "/dev/full"}, one_column);
	ASSERT_TRUE(files) << files.error();
	EXPECT_TRUE(files->write_so_far(table_)) << "it is no regular file";
	EXPECT_EQ(files->write_last(table_).error(), "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace verbena::bench
