// SPDX-License-Identifier: Apache-2.0
#include "nic/status/door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>

namespace verbena::status {
namespace {

using std::chrono::milliseconds;

std::string name_of(const Descriptor& door) {
	sockaddr_un name{};
	socklen_t length = sizeof name;
	getsockname(door.get(), reinterpret_cast<sockaddr*>(&name), &length);
	return {name.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1};
}

Process myself() { return {.pid = 1, .uid = geteuid(), .time = 5, .program = "p", .counters = {}, .queue_pairs = {}}; }

// Asks on another thread, because the answer comes from this one.
std::future<Answer> asked(const Descriptor& door, milliseconds timeout = milliseconds(20'000)) {
	return std::async(std::launch::async, [=, name = name_of(door)] { return ask({name}, geteuid(), timeout)[0]; });
}

Descriptor visitor_at(const Descriptor& door) {
	for (;;) {
		auto visitor = next_visitor(door.get());
		if (visitor) return std::move(*visitor);
		EXPECT_EQ(visitor.error(), EAGAIN);
	}
}

TEST(StatusDoor, WhoAsksGetsTheStatus) {
	const auto door = open_door(geteuid());
	ASSERT_TRUE(door);
	auto answered = asked(*door);
	EXPECT_TRUE(answer(visitor_at(*door), render(myself())));
	const auto got = answered.get();
	ASSERT_TRUE(got);
	EXPECT_EQ(*got, myself());
}

TEST(StatusDoor, AProcessThatDoesNotAnswerCostsTheTimeout) {
	const auto door = open_door(geteuid());
	ASSERT_TRUE(door);
	EXPECT_EQ(asked(*door, milliseconds(1)).get().error(), ETIMEDOUT);
}

TEST(StatusDoor, DoorsWithoutAnAnswerDoNotWaitInTurn) {
	constexpr std::size_t silent = 100;
	std::vector<Descriptor> doors;
	std::vector<std::string> names;
	for (std::size_t i = 0; i <= silent; ++i) {
		doors.push_back(std::move(*open_door(geteuid())));
		names.push_back(name_of(doors.back()));
	}
	names.push_back("verbena/0/status/none");
	auto answered = std::async(std::launch::async, [&] { return ask(names, geteuid(), milliseconds(3'000)); });
	EXPECT_TRUE(answer(visitor_at(doors[silent]), render(myself())));
	// In turn they would take 300 s.
	ASSERT_EQ(answered.wait_for(std::chrono::seconds(100)), std::future_status::ready);
	const std::vector<Answer> answers = answered.get();
	EXPECT_EQ(answers[0].error(), ETIMEDOUT);
	EXPECT_TRUE(answers[silent]);
	EXPECT_EQ(answers[silent + 1].error(), ECONNREFUSED);
}

TEST(StatusDoor, AnAnswerThatIsNoStatusIsRefused) {
	const auto door = open_door(geteuid());
	ASSERT_TRUE(door);
	Process other = myself();
	other.uid += 1;
	for (const std::string& text : {std::string(), std::string("nonsense"), render(other)}) {
		auto answered = asked(*door);
		EXPECT_TRUE(answer(visitor_at(*door), text));
		EXPECT_EQ(answered.get().error(), EPROTO) << text;
	}
	auto answered = asked(*door);
	const Descriptor visitor = visitor_at(*door);
	EXPECT_EQ(send(visitor.get(), "x", 1, 0), 1);  // without a descriptor
	EXPECT_EQ(answered.get().error(), EPROTO);
	auto unsealed = asked(*door);
	EXPECT_TRUE(pass(visitor_at(*door), Descriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC))));
	EXPECT_EQ(unsealed.get().error(), EPROTO);
	auto hung_up = asked(*door);
	{ const Descriptor closed = visitor_at(*door); }
	EXPECT_EQ(hung_up.get().error(), ECONNRESET);
}

TEST(StatusDoor, ANameThatSaysAnotherUserIsNotBelieved) {
	const auto door = open_door(geteuid() + 1);
	ASSERT_TRUE(door);
	EXPECT_EQ(ask({name_of(*door)}, geteuid(), milliseconds(20'000))[0].error(), EPERM);
}

TEST(StatusDoor, ItsNameIsFoundOnceInTheKernelsList) {
	constexpr std::string_view list =
		"Num       RefCount Protocol Flags    Type St Inode Path\n"
		"0000: 00000002 00000000 00010000 0005 01 1 @verbena/1000/status/00ab\n"
		"0000: 00000002 00000000 00010000 0005 03 2 @verbena/1000/status/00ab\n"
		"0000: 00000002 00000000 00010000 0005 01 3 @verbena/7/status/1\n"
		"0000: 00000002 00000000 00010000 0005 01 4 @verbena/1000/qp/5\n"
		"0000: 00000002 00000000 00010000 0005 01 5 @verbena/x/status/5\n"
		"0000: 00000002 00000000 00010000 0005 01 6 /run/verbena/1000/status/5\n"
		"0000: 00000002 00000000 00010000 0005 01 7\n";
	EXPECT_EQ(doors_in(list, 1000), (std::vector<std::string>{"verbena/1000/status/00ab"}));
	EXPECT_EQ(doors_in(list, 0).size(), 2u);
	EXPECT_TRUE(doors_in("", 0).empty());
}

}  // namespace
}  // namespace verbena::status
