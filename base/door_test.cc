// SPDX-License-Identifier: Apache-2.0
#include "base/door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>

namespace verbena::door {
namespace {

using std::chrono::milliseconds;

Found named(const Descriptor& door) {
	sockaddr_un name{};
	socklen_t length = sizeof name;
	getsockname(door.get(), reinterpret_cast<sockaddr*>(&name), &length);
	return {std::string(name.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1)};
}

constexpr std::string_view text = "a text\nof two lines\n";

// Asks on another thread, because the answer comes from this one.
std::future<Answer> asked(const Descriptor& door, milliseconds timeout = milliseconds(20'000)) {
	return std::async(std::launch::async, [=, found = named(door)] { return ask({found}, geteuid(), timeout)[0]; });
}

Descriptor visitor_at(const Descriptor& door) {
	for (;;) {
		auto visitor = next_visitor(door.get());
		if (visitor) return std::move(*visitor);
		EXPECT_EQ(visitor.error(), EAGAIN);
	}
}

TEST(Door, AVisitorGetsTheTextAndTheProcess) {
	const auto door = open("status", geteuid());
	ASSERT_TRUE(door);
	auto answered = asked(*door);
	EXPECT_TRUE(answer(visitor_at(*door), text));
	const Answer got = answered.get();
	ASSERT_TRUE(got.text);
	EXPECT_EQ(*got.text, text);
	EXPECT_EQ(got.pid, getpid());
}

TEST(Door, AProcessThatDoesNotAnswerCostsTheTimeout) {
	const auto door = open("status", geteuid());
	ASSERT_TRUE(door);
	EXPECT_EQ(asked(*door, milliseconds(1)).get().text.error(), ETIMEDOUT);
}

TEST(Door, DoorsWithoutAnAnswerDoNotWaitInTurn) {
	constexpr std::size_t silent = 100;
	std::vector<Descriptor> doors;
	std::vector<Found> found;
	for (std::size_t i = 0; i <= silent; ++i) {
		doors.push_back(std::move(*open("status", geteuid())));
		found.push_back(named(doors.back()));
	}
	found.push_back({"verbena/0/status/none"});
	auto answered = std::async(std::launch::async, [&] { return ask(found, geteuid(), milliseconds(3'000)); });
	EXPECT_TRUE(answer(visitor_at(doors[silent]), text));
	// In turn they would take 300 s.
	ASSERT_EQ(answered.wait_for(std::chrono::seconds(100)), std::future_status::ready);
	const std::vector<Answer> answers = answered.get();
	EXPECT_EQ(answers[0].text.error(), ETIMEDOUT);
	EXPECT_TRUE(answers[silent].text);
	EXPECT_EQ(answers[silent + 1].text.error(), ECONNREFUSED);
}

TEST(Door, AnAnswerThatIsNoSealedFileIsRefused) {
	const auto door = open("status", geteuid());
	ASSERT_TRUE(door);
	auto answered = asked(*door);
	const Descriptor visitor = visitor_at(*door);
	EXPECT_EQ(send(visitor.get(), "x", 1, 0), 1);  // without a descriptor
	EXPECT_EQ(answered.get().text.error(), EPROTO);
	auto unsealed = asked(*door);
	EXPECT_TRUE(pass(visitor_at(*door), Descriptor(::open("/dev/zero", O_RDONLY | O_CLOEXEC))));
	EXPECT_EQ(unsealed.get().text.error(), EPROTO);
	auto hung_up = asked(*door);
	{ const Descriptor closed = visitor_at(*door); }
	EXPECT_EQ(hung_up.get().text.error(), ECONNRESET);
}

TEST(Door, ANameThatSaysAnotherUserIsNotBelieved) {
	const auto door = open("status", geteuid() + 1);
	ASSERT_TRUE(door);
	EXPECT_EQ(ask({named(*door)}, geteuid(), milliseconds(20'000))[0].text.error(), EPERM);
}

TEST(Door, ItsNameIsFoundOnceInTheKernelsList) {
	constexpr std::string_view list =
		"Num       RefCount Protocol Flags    Type St Inode Path\n"
		"0000: 00000002 00000000 00010000 0005 01 1 @verbena/1000/status/00ab\n"
		"0000: 00000002 00000000 00010000 0005 03 2 @verbena/1000/status/00ab\n"
		"0000: 00000002 00000000 00010000 0005 01 3 @verbena/7/status/1\n"
		"0000: 00000002 00000000 00010000 0005 01 4 @verbena/1000/qp/5\n"
		"0000: 00000002 00000000 00010000 0005 01 5 @verbena/x/status/5\n"
		"0000: 00000002 00000000 00010000 0005 01 6 /run/verbena/1000/status/5\n"
		"0000: 00000002 00000000 00010000 0005 01 7\n"
		"0000: 00000002 00000000 00010000 0005 01 8 @verbena/1000/channels/5\n";
	const std::vector<Found> own = found_in(list, 1000);
	EXPECT_EQ(own, (std::vector<Found>{{"verbena/1000/channels/5"}, {"verbena/1000/status/00ab"}}));
	EXPECT_EQ(own[0].kind(), "channels");
	EXPECT_EQ(own[1].kind(), "status");
	EXPECT_EQ(own[1].user(), 1000u);
	EXPECT_EQ(found_in(list, 0).size(), 3u);
	EXPECT_TRUE(found_in("", 0).empty());
}

}  // namespace
}  // namespace verbena::door
