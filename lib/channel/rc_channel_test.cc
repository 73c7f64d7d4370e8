#include "lib/channel/rc_channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;

using testing_tools::bytes_of;
using testing_tools::echo;

class RcChannels : public ::testing::Test {
protected:
	void SetUp() override { transports_.open(); }
	auto connect() { return transports_.connect(); }

	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
};

TEST_F(RcChannels, RequestAndAnswerTakeTwoFrames) {
	auto [a, b] = connect();
	loop_.spawn(echo(*b));
	loop_.complete([](Channel& channel) -> Task<void> {
		for (int i = 0; i < 100; ++i) {
			co_await channel.send(bytes_of("question"));
			co_await channel.receive();
		}
	}(*a));
	for (RcTransport* transport : {&transports_[0], &transports_[1]}) {
		EXPECT_EQ(transport->counters().frames_sent, 100u);
		EXPECT_EQ(transport->counters().credit_frames, 0u);
		EXPECT_EQ(transport->counters().want_frames, 0u);
	}
	loop_.abandon_spawned();
}

TEST_F(RcChannels, ASlowConsumerThrottlesAFastSenderAndSmallMessagesShareFrames) {
	auto [a, b] = connect();
	constexpr int count = 5000;
	int sent = 0, received = 0;
	loop_.spawn([](Channel& channel, int& done) -> Task<void> {
		for (int i = 0; i < count; ++i) {
			EXPECT_TRUE(co_await channel.send(std::as_bytes(std::span(&i, 1))));
			++done;
		}
	}(*a, sent));
	loop_.complete([](async::Loop& loop, Channel& channel, int& done, const int& sent) -> Task<void> {
		std::vector<Message> held;
		for (int i = 0; i < count; ++i) {
			auto message = co_await channel.receive();
			if (!message) co_return ADD_FAILURE() << channel.reason();
			int number = -1;
			std::memcpy(&number, message->bytes().data(), sizeof number);
			EXPECT_EQ(number, i);
			++done;
			held.push_back(std::move(*message));
			if (held.size() == 40) {
				for (int turn = 0; turn < 3; ++turn) co_await loop.sleep_for(20'000);
				held.clear();
				// Window, pending frame, units in flight: what is on the way is bounded.
				EXPECT_LT(sent - done, 64 * 128);
			}
		}
	}(loop_, *b, received, sent));
	EXPECT_EQ(received, count);
	EXPECT_GT(transports_[0].counters().messages_coalesced, 0u);
	EXPECT_LT(transports_[0].counters().frames_sent, static_cast<std::uint64_t>(count));
}

TEST_F(RcChannels, APeerThatGoesWithoutAWordIsLostWhenSomethingIsSent) {
	auto [a, b] = connect();
	b.reset();
	std::string why;
	loop_.complete([](Channel& channel, std::string& out) -> Task<void> {
		co_await channel.send(bytes_of("anybody there?"));
		const auto message = co_await channel.receive();
		EXPECT_FALSE(message.has_value());
		if (!message) {
			EXPECT_EQ(message.error(), Trouble::lost);
		}
		out = channel.reason();
	}(*a, why));
	EXPECT_NE(why.find("connection is lost"), std::string::npos) << why;
}

// A server's end is ready long before a client's that connects with thousands of others: a heartbeat then met a queue pair that could not
// receive yet, and the connection was lost before it had begun.
TEST_F(RcChannels, AHeartbeatWaitsForThePeersFirstWord) {
	RcOffer left = transports_[0].offer().value(), right = transports_[1].offer().value();
	const RcEnd left_end = left.end, right_end = right.end;
	auto early = transports_[1].connect(std::move(right), left_end, "a").value();
	loop_.complete([](async::Loop& loop) -> Task<void> { co_await loop.sleep_for(300'000'000); }(loop_));
	EXPECT_EQ(transports_[1].counters().heartbeats, 0u);
	auto late = transports_[0].connect(std::move(left), right_end, "b").value();
	loop_.complete([](Channel& from, Channel& to) -> Task<void> {
		EXPECT_TRUE(co_await from.send(bytes_of("at last")));
		EXPECT_TRUE(co_await to.receive());
	}(*late, *early));
}

TEST_F(RcChannels, ThousandsComeAndGoWithTheSameMemory) {
	for (int round = 0; round < 300; ++round) {
		auto [a, b] = connect();
		loop_.complete([](Channel& from, Channel& to) -> Task<void> {
			co_await from.send(bytes_of("one"));
			co_await to.receive();
			from.close();
			co_await to.until_closed();
			co_await from.until_closed();
		}(*a, *b));
	}
	for (RcTransport* transport : {&transports_[0], &transports_[1]}) EXPECT_LE(transport->units(), 1024u);
}

}  // namespace
}  // namespace verbena::channel
