// SPDX-License-Identifier: Apache-2.0
#include "tools/stage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <vector>

namespace verbena::tools {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::vector<nlohmann::ordered_json> shown;

std::optional<std::string> run(const std::function<void(const Show&)>& work, Clock::duration limit = 30s) {
	shown.clear();
	return run_stage(Clock::now() + limit, work, [](const nlohmann::ordered_json& json) { shown.push_back(json); });
}

TEST(Stage, ReportsArriveInOrderFromAnotherProcess) {
	const pid_t here = getpid();
	EXPECT_EQ(run([](const Show& report) {
		for (int i = 0; i < 100; ++i) report({{"number", i}, {"process", getpid()}, {"text", std::string(1000, 'x')}});
	}),
		std::nullopt);
	ASSERT_EQ(shown.size(), 100u);
	EXPECT_EQ(shown.back()["number"], 99);
	EXPECT_NE(shown.back()["process"], here);
}

TEST(Stage, ASignalIsNamedAndWhatCameBeforeItIsShown) {
	const auto failure = run([](const Show& report) {
		report({{"number", 1}});
		raise(SIGKILL);
	});
	EXPECT_EQ(shown.size(), 1u);
	ASSERT_TRUE(failure);
	EXPECT_NE(failure->find("signal 9"), std::string::npos) << *failure;
}

TEST(Stage, AStageThatHangsIsEndedAtTheDeadline) {
	const auto failure = run([](const Show&) { pause(); }, 50ms);
	ASSERT_TRUE(failure);
	EXPECT_NE(failure->find("not done in time"), std::string::npos) << *failure;
}

TEST(Stage, AnExceptionIsAFailure) {
	EXPECT_EQ(run([](const Show&) { throw std::runtime_error("bad"); }), "ended with status 1");
}

}  // namespace
}  // namespace verbena::tools
