// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <string>
#include <vector>

#include "lib/channel/direct_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

TransportStatus example() {
	return {.pid = 7,
		.uid = 1000,
		.channels_open = 2,
		.credits_free = 3,
		.device = "vb_eth0",
		.program = "two words",
		.channels = {{.qpn = 5,
						 .peer_qpn = 6,
						 .waits = "credits",
						 .waits_ms = 40,
						 .credits = 0,
						 .granted = 64,
						 .sends = 2,
						 .bytes = 3000,
						 .offers = 1,
						 .offered_bytes = 65536,
						 .held = 4,
						 .peer = "a b"},
			{.qpn = 8, .peer_qpn = 9, .peer = "10.0.0.1:7471"}}};
}

TEST(ChannelStatusText, WhatIsRenderedIsRead) { EXPECT_EQ(parse_status(render(example())), example()); }

TEST(ChannelStatusText, LinesThatItDoesNotKnowAreLeftOut) {
	const std::string text = render(example()) + "channel 1 2 x\nchannel\nlater 5\n\n";
	EXPECT_EQ(parse_status(text), example());
	for (const char* const wrong : {"", "verbena status 1\n", "verbena channels 1\n", "verbena channels 1\nchannel 1\n",
			 "verbena channels 1\ntransport x 0 0 0 d p\n"})
		EXPECT_FALSE(parse_status(wrong)) << wrong;
}

TEST(ChannelStatusText, ANameCannotBreakALine) {
	TransportStatus status = example();
	status.program = status.channels[1].peer = "p\nchannel 1";
	const auto read = parse_status(render(status));
	ASSERT_TRUE(read);
	EXPECT_EQ(read->program, "p?channel 1");
	EXPECT_EQ(read->channels.size(), 2u);
}

TEST(TransportsAtTheirDoors, OnlyLivingProcessesAreSilent) {
	const door::Found at{"verbena/1000/channels/1"};
	constexpr pid_t none = 1 << 30;
	TransportStatus foreign = example();
	foreign.uid = 1001;
	const door::Found doors[] = {at, at, at, at, at, {"verbena/1000/status/1"}};
	const door::Answer answers[] = {{.text = render(example())}, {.text = render(foreign)},
		{.pid = getpid(), .text = std::unexpected(ETIMEDOUT)}, {.pid = none, .text = std::unexpected(ETIMEDOUT)},
		{.pid = getpid(), .text = std::unexpected(ECONNREFUSED)}, {.text = render(example())}};
	const TransportsSeen seen = transports_in(doors, answers);
	EXPECT_EQ(seen.transports, std::vector{example()});
	EXPECT_EQ(seen.silent, (std::vector{SilentProcess{static_cast<std::uint32_t>(getpid()), 1000}}));
}

using StatusOfChannels = Direct;

TEST_F(StatusOfChannels, ASenderWithoutCreditsWaitsForThemAndItsPeerHoldsTheBuffers) {
	fill(loop_, *a_);
	const TransportStatus status = transports_[0].status();
	EXPECT_EQ(status.pid, static_cast<std::uint32_t>(getpid()));
	EXPECT_EQ(status.channels_open, 1u);
	ASSERT_EQ(status.channels.size(), 1u);
	const ChannelStatus& sender = status.channels[0];
	EXPECT_EQ(sender.waits, "credits");
	EXPECT_EQ(sender.credits, 0u);
	// One lies in the pending frame, the other did not fit into it.
	EXPECT_EQ(sender.sends, 2u);
	EXPECT_EQ(sender.bytes, 2 * 1000u + MessageHeader::bytes);
	EXPECT_EQ(sender.peer, "b");
	const ChannelStatus receiver = transports_[1].status().channels.at(0);
	EXPECT_EQ(receiver.waits, "nothing");
	EXPECT_EQ(receiver.granted, 0u);
	EXPECT_GT(receiver.held, 0u);
	EXPECT_EQ(receiver.qpn, sender.peer_qpn);
	EXPECT_EQ(receiver.peer_qpn, sender.qpn);
	// The wait grows until the peer gives a credit.
	loop_.run_until([&] { return a_->status().waits_ms > sender.waits_ms; });
	loop_.spawn([](Channel& to) -> Task<void> {
		while (co_await to.receive()) {}
	}(*b_));
	loop_.run_until([&] { return a_->status().waits_ms == 0; });
}

TEST_F(StatusOfChannels, ASenderWhoseMessagesAreNotFetchedWaitsForThat) {
	const auto content = pattern(1 << 20, 3);
	const Place body = filled(*a_->memory(), content);
	// The peer fetches one message before its program receives it, and no second one.
	for (int i = 0; i < 2; ++i)
		loop_.spawn([](Channel& from, Place body) -> Task<void> {
			co_await from.send(std::span<const std::byte>(), body);
		}(*a_, body));
	loop_.run_until([&] { return transports_[0].counters().messages_sent == 2 && a_->status().offers == 1; });
	const ChannelStatus sender = a_->status();
	EXPECT_EQ(sender.waits, "fetch");
	EXPECT_GE(sender.offered_bytes, content.size());
	loop_.complete([](Channel& to) -> Task<void> {
		for (int i = 0; i < 2; ++i) co_await to.receive();
	}(*b_));
	loop_.run_until([&] { return a_->status().waits == "nothing"; });
	EXPECT_EQ(a_->status().offered_bytes, 0u);
}

// The doors of the transports of this process.
TransportsSeen ask_own(std::chrono::milliseconds patience) {
	std::vector<door::Found> doors = door::find_all();
	TransportsSeen seen = transports_in(doors, door::ask(doors, geteuid(), patience));
	std::erase_if(seen.transports, [](const auto& each) { return each.pid != static_cast<std::uint32_t>(getpid()); });
	std::erase_if(seen.silent, [](const auto& each) { return each.pid != static_cast<std::uint32_t>(getpid()); });
	return seen;
}

TEST_F(StatusOfChannels, EachTransportAnswersAtItsDoorWhileItsLoopRuns) {
	auto asked = std::async(std::launch::async, ask_own, std::chrono::milliseconds(20'000));
	loop_.run_until([&] { return asked.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
	const TransportsSeen seen = asked.get();
	EXPECT_EQ(seen.silent.size(), 0u);
	ASSERT_EQ(seen.transports.size(), 2u);
	for (const TransportStatus& each : seen.transports) EXPECT_EQ(each.channels.size(), 1u);
}

TEST_F(StatusOfChannels, ALoopThatDoesNotRunIsSilent) {
	const TransportsSeen seen = ask_own(std::chrono::milliseconds(1));
	EXPECT_EQ(seen.transports.size(), 0u);
	EXPECT_EQ(seen.silent.size(), 2u);
}

TEST_F(StatusOfChannels, AbandonedTasksLeaveTheDoorOpen) {
	loop_.abandon_spawned();
	auto asked = std::async(std::launch::async, ask_own, std::chrono::milliseconds(20'000));
	loop_.run_until([&] { return asked.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
	EXPECT_EQ(asked.get().transports.size(), 2u);
}

}  // namespace
}  // namespace verbena::channel
