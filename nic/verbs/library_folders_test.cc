// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/library_folders.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::verbs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LibraryFolders : public testing::Test {
protected:
	LibraryFolders() {
		std::string name = std::filesystem::temp_directory_path() / "library-folders-XXXXXX";
		folder = mkdtemp(name.data());
	}
	~LibraryFolders() override { std::filesystem::remove_all(folder); }

	std::string write(const std::string& name, const std::string& text) {
		std::ofstream(folder / name) << text;
		return folder / name;
	}

	std::filesystem::path folder;
};

TEST_F(LibraryFolders, ConfigurationHasOneFolderALineAndComments) {
	EXPECT_THAT(
		configured_folders(write("ld.so.conf", "# comment\n/opt/a\n\n  /opt/b\t# why\n/opt/c=libc6\nhwcap 1 x\n")),
		ElementsAre("/opt/a", "/opt/b", "/opt/c"));
}

TEST_F(LibraryFolders, ConfigurationIncludesFilesByPatternInOrder) {
	write("two.conf", "/opt/two\n");
	write("one.conf", "/opt/one\n");
	write("three.txt", "/opt/three\n");
	EXPECT_THAT(configured_folders(write("ld.so", "/opt/zero\ninclude *.conf\n/opt/last\n")),
		ElementsAre("/opt/zero", "/opt/one", "/opt/two", "/opt/last"));
}

TEST_F(LibraryFolders, AConfigurationThatIncludesItselfEnds) {
	const auto folders = configured_folders(write("ld.so.conf", "/opt/a\ninclude ld.so.conf\n"));
	EXPECT_GE(folders.size(), 1u);
	EXPECT_EQ(std::ranges::count(folders, "/opt/a"), static_cast<long>(folders.size()));
}

TEST_F(LibraryFolders, AMissingConfigurationNamesNoFolder) {
	EXPECT_THAT(configured_folders(folder / "missing"), IsEmpty());
}

TEST_F(LibraryFolders, TheFolderOfLibcIsAmongTheLoadersFolders) {
	void* const program = dlopen(nullptr, RTLD_LAZY);
	link_map* map = nullptr;
	ASSERT_EQ(dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&map)), 0);
	Dl_info libc;
	ASSERT_NE(dladdr(reinterpret_cast<void*>(&getpid), &libc), 0);
	const auto expected = std::filesystem::canonical(libc.dli_fname).parent_path();
	EXPECT_TRUE(std::ranges::any_of(library_folders(*map), [&](const std::string& found) {
		std::error_code error;
		return std::filesystem::equivalent(found, expected, error);
	}));
	dlclose(program);
}

}  // namespace
}  // namespace verbena::verbs
