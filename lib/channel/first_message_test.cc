// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/first_message.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/channel/setup/fixture.h"
#include "lib/channel/socket_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;
using async::Task;

class FirstMessages : public ::testing::Test {
protected:
	FirstMessages() : ends_(connected_sockets(loop_)) {}

	// Waits for the first message while `client` runs.
	FirstMessage outcome(Task<void> client, Nanoseconds patience = 10'000'000'000) {
		FirstMessage result = FirstMessage::none;
		loop_.spawn(std::move(client));
		loop_.complete([](async::Descriptor& socket, Nanoseconds deadline, FirstMessage& result) -> Task<void> {
			result = co_await await_first_message(socket, deadline);
		}(*ends_[1], monotonic_now() + patience, result));
		return result;
	}
	// Sends the bytes one by one, each in a turn of the loop of its own.
	static Task<void> trickle(async::Descriptor& socket, std::vector<std::byte> bytes, std::size_t& sent) {
		for (const std::byte& each : bytes) {
			++sent;
			co_await async::write_all(socket, std::span(&each, 1), never);
			co_await async::NextTurn(socket.loop());
		}
	}
	static std::vector<std::byte> record(std::size_t length) {
		std::vector<std::byte> bytes(5 + length, std::byte{1});
		bytes[0] = std::byte{22};
		bytes[3] = static_cast<std::byte>(length >> 8);
		bytes[4] = static_cast<std::byte>(length);
		return bytes;
	}

	async::Loop loop_{{.spin = 0}};
	std::array<async::Socket, 2> ends_;
	std::size_t sent_ = 0;
};

TEST_F(FirstMessages, ARecordIsThereWithItsLastByteOnly) {
	EXPECT_EQ(outcome(trickle(*ends_[0], record(300), sent_)), FirstMessage::there);
	EXPECT_EQ(sent_, 305u);
	std::vector<std::byte> unread(1000);
	EXPECT_EQ(async::try_read(*ends_[1], unread), 305) << "nothing was taken";
	EXPECT_EQ(async::try_read(*ends_[1], unread), -EAGAIN);
}

TEST_F(FirstMessages, ParametersInClearAreThereWithTheirLastByteOnly) {
	const std::vector<std::byte> message = encode(parameters_of(Role::client));
	EXPECT_EQ(outcome(trickle(*ends_[0], message, sent_)), FirstMessage::there);
	EXPECT_EQ(sent_, message.size());
}

TEST_F(FirstMessages, OtherBytesAreLeftToTheHandshake) {
	EXPECT_EQ(outcome(trickle(*ends_[0], std::vector<std::byte>(100, std::byte{'x'}), sent_)), FirstMessage::there);
	EXPECT_LT(sent_, 100u);
}

TEST_F(FirstMessages, OneByteIsAPart) {
	EXPECT_EQ(outcome(trickle(*ends_[0], {std::byte{22}}, sent_), 50'000'000), FirstMessage::part);
}

TEST_F(FirstMessages, NothingIsNone) {
	EXPECT_EQ(outcome(trickle(*ends_[0], {}, sent_), 50'000'000), FirstMessage::none);
}

TEST_F(FirstMessages, TheEndOfTheStreamEndsTheWait) {
	EXPECT_EQ(outcome([](async::Socket& socket) -> Task<void> {
		const std::byte first{22};
		co_await async::write_all(*socket, std::span(&first, 1), never);
		co_await async::NextTurn(socket->loop());
		socket.reset();
	}(ends_[0])),
		FirstMessage::there);
}

// The kernel must report later bytes one by one again.
TEST_F(FirstMessages, TheSocketIsAsBeforeAfterwards) {
	EXPECT_EQ(outcome(trickle(*ends_[0], record(300), sent_)), FirstMessage::there);
	loop_.complete([](async::Descriptor& from, async::Descriptor& to) -> Task<void> {
		std::vector<std::byte> room(305);
		EXPECT_EQ((co_await async::read_some(to, room, never)).value(), 305u);
		const std::byte one{};
		co_await async::write_all(from, std::span(&one, 1), never);
		EXPECT_EQ((co_await async::read_some(to, room, monotonic_now() + 10'000'000'000)).value(), 1u);
	}(*ends_[0], *ends_[1]));
}

}  // namespace
}  // namespace verbena::channel
