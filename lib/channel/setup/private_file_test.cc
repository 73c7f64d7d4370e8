#include "lib/channel/setup/private_file.h"

#include <sys/stat.h>

#include <iterator>

#include "lib/channel/setup/fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

std::string contents(const std::string& path) {
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
	struct stat status{};
	EXPECT_EQ(stat(path.c_str(), &status), 0);
	return status.st_mode & 07777u;
}

TEST(WholeFile, HasItsModeWhateverTheUmask) {
	const Folder folder;
	const mode_t before = umask(0);
	EXPECT_EQ(write_whole(folder / "key", "secret"), true);
	umask(077);
	EXPECT_EQ(write_whole(folder / "certificate", "public", {.mode = 0644}), true);
	umask(before);
	EXPECT_EQ(mode_of(folder / "key"), 0600u);
	EXPECT_EQ(mode_of(folder / "certificate"), 0644u);
	EXPECT_EQ(contents(folder / "key"), "secret");
}

TEST(WholeFile, ThatIsThereIsReplacedOnlyIfThatWasAsked) {
	const Folder folder;
	folder.write("key", "old");
	EXPECT_EQ(write_whole(folder / "key", "new"), false);
	EXPECT_EQ(contents(folder / "key"), "old");
	EXPECT_EQ(write_whole(folder / "key", "new", {.replace = true}), true);
	EXPECT_EQ(contents(folder / "key"), "new");
	EXPECT_EQ(mode_of(folder / "key"), 0600u);
	EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing else is left there";
}

TEST(WholeFile, WithoutAFolderIsAnErrorThatNamesIt) {
	const auto written = write_whole("/nowhere/key", "secret");
	ASSERT_FALSE(written);
	EXPECT_EQ(written.error(), "cannot write /nowhere/key: No such file or directory");
}

}  // namespace
}  // namespace verbena::channel
