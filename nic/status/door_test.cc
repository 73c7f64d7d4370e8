// SPDX-License-Identifier: Apache-2.0
#include "nic/status/door.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace verbena::status {
namespace {

const door::Found at{"verbena/1000/status/1"};

Process one(std::uint32_t pid, std::uint32_t uid) {
	return {.pid = pid, .uid = uid, .time = 5, .program = "p", .counters = {}, .queue_pairs = {}};
}

TEST(StatusDoor, AnAnswerThatIsNoStatusOfThisUserIsRefused) {
	EXPECT_EQ(read(at, {.pid = 1, .text = render(one(1, 1000))}), one(1, 1000));
	for (const std::string& text : {std::string(), std::string("nonsense"), render(one(1, 1001))})
		EXPECT_EQ(read(at, {.pid = 1, .text = text}).error(), EPROTO) << text;
	EXPECT_EQ(read(at, {.pid = 1, .text = std::unexpected(ETIMEDOUT)}).error(), ETIMEDOUT);
}

TEST(StatusDoor, OnlyAnswersOfItsKindAreRead) {
	const door::Found doors[] = {{"verbena/1000/channels/1"}, at, at};
	const door::Answer answers[] = {
		{.text = render(one(3, 1000))}, {.text = render(one(2, 1000))}, {.text = render(one(1, 1000))}};
	const std::vector<Process> all = all_in(doors, answers);
	ASSERT_EQ(all.size(), 2u);
	EXPECT_EQ(all[0].pid, 1u);
}

}  // namespace
}  // namespace verbena::status
