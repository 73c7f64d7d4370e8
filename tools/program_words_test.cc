// SPDX-License-Identifier: Apache-2.0
#include "tools/program_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Cut {
	std::vector<std::string> own, program;
};

Cut cut(std::vector<std::string> words) {
	CLI::App app;
	std::string list;
	bool json = false;
	app.add_option("--devices", list);
	app.add_flag("--json", json);
	words.insert(words.begin(), "run");
	auto program = cut_program_words(app, words, 1);
	return {{words.begin() + 1, words.end()}, std::move(program)};
}

TEST(ProgramWords, BeginAfterTwoDashes) {
	const Cut both = cut({"--json", "--", "ls", "-l", "--", "x"});
	EXPECT_THAT(both.own, ElementsAre("--json"));
	EXPECT_THAT(both.program, ElementsAre("ls", "-l", "--", "x"));
}

TEST(ProgramWords, BeginAtTheFirstWordThatIsNoOption) {
	const Cut both = cut({"--json", "ls", "--help"});
	EXPECT_THAT(both.own, ElementsAre("--json"));
	EXPECT_THAT(both.program, ElementsAre("ls", "--help"));
}

TEST(ProgramWords, TheValueOfAnOptionIsNotTheProgram) {
	EXPECT_THAT(cut({"--devices", "vb_eth0", "ls"}).program, ElementsAre("ls"));
	EXPECT_THAT(cut({"--devices=vb_eth0", "ls"}).program, ElementsAre("ls"));
	EXPECT_THAT(cut({"--devices", "-vb_lo", "--", "ls"}).program, ElementsAre("ls"));
}

TEST(ProgramWords, AnUnknownOptionIsLeftToTheParser) {
	const Cut both = cut({"--fast", "ls"});
	EXPECT_THAT(both.own, ElementsAre("--fast"));
	EXPECT_THAT(both.program, ElementsAre("ls"));
}

TEST(ProgramWords, MayBeMissing) {
	EXPECT_THAT(cut({}).program, IsEmpty());
	EXPECT_THAT(cut({"--"}).program, IsEmpty());
	EXPECT_THAT(cut({"--devices"}).program, IsEmpty());
	EXPECT_THAT(cut({"--devices"}).own, ElementsAre("--devices"));
}

TEST(ProgramWords, AllWordsBelongToAProgramThatReplacesTheSubcommand) {
	CLI::App app;
	app.allow_extras();
	std::vector<std::string> words{"report", "--plots", "folder", "--help"};
	EXPECT_THAT(cut_program_words(app, words, 1), ElementsAre("--plots", "folder", "--help"));
	EXPECT_THAT(words, ElementsAre("report"));
}

}  // namespace
}  // namespace verbena::tools
