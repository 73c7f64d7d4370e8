// SPDX-License-Identifier: Apache-2.0
#include "tools/program_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace verbena::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using State = Program::State;

// A folder of this test's own, which is the only one in PATH.
class Look : public testing::Test {
protected:
	Look() {
		std::string name = testing::TempDir() + "lookXXXXXX";
		folder_ = mkdtemp(name.data());
		path_before_ = std::getenv("PATH");
		setenv("PATH", folder_.c_str(), 1);
	}
	~Look() override {
		setenv("PATH", path_before_.c_str(), 1);
		std::filesystem::remove_all(folder_);
	}

	std::string file(const std::string& name, const std::string& text, mode_t mode = 0755) const {
		const std::string path = folder_ + '/' + name;
		std::ofstream(path) << text;
		chmod(path.c_str(), mode);
		return path;
	}
	// A real program under this name.
	std::string program(const std::string& name) const {
		const std::string path = folder_ + '/' + name;
		std::filesystem::copy_file("/proc/self/exe", path);
		chmod(path.c_str(), 0755);
		return path;
	}
	const std::string& folder() const { return folder_; }

private:
	std::string folder_, path_before_;
};

Program look_at(const std::vector<std::string>& command) { return look(command); }

TEST_F(Look, FindsANameAlongPath) {
	const std::string path = program("mine");
	const Program found = look_at({"mine", "-x"});
	EXPECT_EQ(found.state, State::readable);
	EXPECT_EQ(found.path, path);
	EXPECT_THAT(found.elf.interpreter, HasSubstr("ld-linux"));
	EXPECT_THAT(found.scripts, IsEmpty());
}

TEST_F(Look, ANameWithASlashIsAPath) {
	const std::string path = program("mine");
	EXPECT_EQ(look_at({path}).path, path);
	EXPECT_EQ(look_at({"./no-such-program"}).state, State::not_found);
	EXPECT_EQ(look_at({"/no/such/program"}).state, State::not_found);
}

TEST_F(Look, AnUnknownNameIsNotFound) {
	EXPECT_EQ(look_at({"no-such-program"}).state, State::not_found);
	EXPECT_EQ(look_at({""}).state, State::not_found);
}

TEST_F(Look, AFolderInPathIsNoProgram) {
	std::filesystem::create_directory(folder() + "/tools");
	EXPECT_EQ(look_at({"tools"}).state, State::not_found);
	EXPECT_EQ(look_at({folder()}).state, State::not_executable);
}

TEST_F(Look, AFileWithoutPermissionDoesNotEndTheSearch) {
	const std::string data = file("data", "x", 0644);
	EXPECT_EQ(look_at({"data"}).state, State::not_executable);
	EXPECT_THAT(look_at({"data"}).problem, HasSubstr("chmod +x"));

	const std::string second = folder() + "/second";
	std::filesystem::create_directory(second);
	setenv("PATH", (folder() + ':' + second).c_str(), 1);
	const std::string behind = program("second/data");
	const Program found = look_at({"data"});
	EXPECT_EQ(found.state, State::readable);
	EXPECT_EQ(found.path, behind);
	EXPECT_THAT(found.problem, IsEmpty());
}

TEST_F(Look, AnEmptyElementOfPathIsTheCurrentFolder) {
	program("mine");
	const auto before = std::filesystem::current_path();
	std::filesystem::current_path(folder());
	setenv("PATH", "/no/such/folder:", 1);
	EXPECT_EQ(look_at({"mine"}).state, State::readable);
	std::filesystem::current_path(before);
}

TEST_F(Look, AScriptLeadsToItsInterpreter) {
	const std::string interpreter = program("interpreter");
	for (const std::string& line :
		{"#!" + interpreter, "#! " + interpreter + "  -x -y \n", "#!\t" + interpreter + "\n"}) {
		const std::string script = file("script", line);
		const Program found = look_at({"script"});
		EXPECT_EQ(found.state, State::readable) << line;
		EXPECT_EQ(found.path, interpreter) << line;
		EXPECT_THAT(found.scripts, ElementsAre(script)) << line;
	}
}

TEST_F(Look, EnvInAScriptLeadsToTheProgramThatItNames) {
	const std::string interpreter = program("python9");
	for (const char* line :
		{"#!/usr/bin/env python9\n", "#!/usr/bin/env -S python9 -u\n", "#!/usr/bin/env -S -i A=1 -u B python9\n"}) {
		const std::string script = file("script", line);
		EXPECT_EQ(look_at({"script"}).path, interpreter) << line;
	}
}

TEST_F(Look, EnvInTheCommandLeadsToItsProgram) {
	const std::string path = program("mine");
	EXPECT_EQ(look_at({"/usr/bin/env", "A=1", "-u", "B", "mine", "C=2"}).path, path);
	EXPECT_EQ(look_at({"/usr/bin/env"}).path, "/usr/bin/env");
}

TEST_F(Look, AScriptWhoseInterpreterIsMissingIsNotFound) {
	file("script", "#!/usr/bin/env no-such-program\n");
	const Program found = look_at({"script"});
	EXPECT_EQ(found.state, State::not_found);
	EXPECT_EQ(found.name, "no-such-program");
}

TEST_F(Look, AFileWithoutAFirstLineIsRunByTheShell) {
	file("script", "echo hello\n");
	const Program found = look_at({"script"});
	EXPECT_EQ(found.state, State::readable);
	EXPECT_EQ(found.path, "/bin/sh");
}

TEST_F(Look, AScriptThatRunsItselfEnds) {
	file("script", "#!" + folder() + "/script\n");
	EXPECT_EQ(look_at({"script"}).state, State::not_executable);
	file("circle", "#!/usr/bin/env circle\n");
	EXPECT_EQ(look_at({"circle"}).state, State::not_executable);
}

TEST_F(Look, ATruncatedProgramIsNotExecutable) {
	const std::string path = program("mine");
	std::filesystem::resize_file(path, 100);
	const Program found = look_at({"mine"});
	EXPECT_EQ(found.state, State::not_executable);
	EXPECT_THAT(found.problem, HasSubstr("truncated"));
}

TEST_F(Look, ASetUserIdBitCountsIfTheOwnerIsAnotherUser) {
	const std::string path = program("mine");
	ASSERT_EQ(chmod(path.c_str(), 04755), 0);
	EXPECT_THAT(look_at({"mine"}).privileges, IsEmpty());
	if (getuid() != 0) GTEST_SKIP() << "only root may give a file to another user";
	ASSERT_EQ(chown(path.c_str(), 12345, static_cast<gid_t>(-1)), 0);
	ASSERT_EQ(chmod(path.c_str(), 04755), 0);
	EXPECT_EQ(look_at({"mine"}).privileges, "set-user-ID");
	ASSERT_EQ(chown(path.c_str(), 0, 12345), 0);
	ASSERT_EQ(chmod(path.c_str(), 02755), 0);
	EXPECT_EQ(look_at({"mine"}).privileges, "set-group-ID");
}

TEST(GrantsCapabilities, IfOneIsPermitted) {
	const auto attribute = [](std::initializer_list<unsigned> bytes) {
		std::vector<std::byte> result;
		for (const unsigned byte : bytes) result.push_back(static_cast<std::byte>(byte));
		return result;
	};
	// cap_net_raw+ep as setcap writes it, then the same without a capability.
	EXPECT_TRUE(grants_capabilities(attribute({1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));
	EXPECT_FALSE(grants_capabilities(attribute({0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})));
	// cap_bpf, number 39, is in the second pair.
	EXPECT_TRUE(grants_capabilities(attribute({1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0})));
	EXPECT_FALSE(grants_capabilities({}));
	EXPECT_FALSE(grants_capabilities(attribute({1, 0, 0})));
}

}  // namespace
}  // namespace verbena::tools
