// SPDX-License-Identifier: Apache-2.0
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
using testing_tools::until;

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
		EXPECT_EQ(transport->counters().frames_inline, 100u);
		// There was room for each message, so none shared a frame.
		EXPECT_EQ(transport->counters().messages_coalesced, 0u);
		// One completion covers all requests before it.
		EXPECT_GT(transport->counters().send_completions, 0u);
		EXPECT_LE(transport->counters().send_completions, 100u / (RcOptions{}.send_depth / 2) + 1);
	}
	loop_.abandon_spawned();
}

TEST_F(RcChannels, APathHasTheSmallerMtuOfItsTwoEnds) {
	RcOffer left = transports_[0].offer().value(), right = transports_[1].offer().value();
	RcEnd peer = right.end;
	peer.mtu_bytes = transports_[0].device().mtu_bytes() / 2;
	const auto a = transports_[0].connect(std::move(left), peer, "b").value();
	EXPECT_EQ(a->path().mtu, peer.mtu_bytes);
}

TEST_F(RcChannels, AMessageAboveInlineMaxLeavesFromAUnit) {
	auto [a, b] = connect();
	loop_.complete([](Channel& from, Channel& to) -> Task<void> {
		const std::vector<std::byte> message(RcOptions{}.inline_max);
		co_await from.send(message);
		co_await to.receive();
	}(*a, *b));
	EXPECT_EQ(transports_[0].counters().frames_inline, 0u);
}

TEST(RcChannelMemory, FollowsLoadAndNotConnectionsWithASharedReceiveQueue) {
	const auto pinned_by_idle_ones = [](RecvMode mode) {
		async::Loop loop;
		testing_tools::TwoTransports transports{loop};
		transports.open({.recv_mode = mode, .units_start = 512, .units_max = 4096, .connections_max = 128});
		const std::size_t before = transports[0].pinned_bytes();
		std::vector<testing_tools::RcPair> idle;
		for (int i = 0; i < 100; ++i) idle.push_back(transports.connect());
		loop.complete([](async::Loop& loop) -> Task<void> { co_await async::NextTurn(loop); }(loop));
		return transports[0].pinned_bytes() - before;
	};
	EXPECT_EQ(pinned_by_idle_ones(RecvMode::srq), 0u);
	const RcOptions each;
	EXPECT_EQ(
		pinned_by_idle_ones(RecvMode::per_connection), 100u * (each.receive_depth + control_kinds) * each.unit_bytes);
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
				// Window, pending frame and units bound the messages that are in flight.
				EXPECT_LT(sent - done, 64 * 128);
			}
		}
	}(loop_, *b, received, sent));
	EXPECT_EQ(received, count);
	EXPECT_GT(transports_[0].counters().messages_coalesced, 0u);
	EXPECT_LT(transports_[0].counters().frames_sent, static_cast<std::uint64_t>(count));
}

TEST_F(RcChannels, APeerThatEndsWithoutCloseIsNoticedWhenSomethingIsSent) {
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

// Regression: a server's end is ready long before the end of a client that connects with thousands
// of others. A heartbeat met a queue pair that could not receive yet, and the connection was lost.
TEST_F(RcChannels, AHeartbeatWaitsForThePeersFirstFrame) {
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

// Regression: the heartbeat was a frame that only the peer's program could answer, and no second
// one was sent before, so a peer that died in between was never noticed.
class RcHeartbeats : public ::testing::TestWithParam<RcOptions> {};

TEST_P(RcHeartbeats, NoticeAPeerThatDiesBeforeItsProgramHasAnsweredOne) {
	async::Loop loop, stalled;
	testing_tools::TwoTransports transports{loop, stalled};
	transports.open(GetParam());
	auto [a, b] = transports.connect();
	stalled.complete([](Channel& channel) -> Task<void> { co_await channel.send(bytes_of("hello")); }(*b));
	loop.complete([](Channel& channel) -> Task<void> { co_await channel.receive(); }(*a));
	const auto beaten = [&](std::uint64_t times) {
		return until(loop, [&, times] { return transports[0].counters().heartbeats >= times; });
	};
	loop.complete(beaten(20));  // more heartbeats than the send queue holds
	EXPECT_GE(transports[0].counters().heartbeats, 20u);
	EXPECT_FALSE(a->closed()) << a->reason();
	b.reset();
	loop.complete(until(loop, [&] { return a->closed(); }));
	EXPECT_NE(a->reason().find("connection is lost"), std::string::npos) << a->reason();
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutDirectOperations, RcHeartbeats,
	::testing::Values(RcOptions{.units_max = 4096, .connections_max = 4},
		RcOptions{.recv_mode = RecvMode::per_connection, .units_max = 4096, .connections_max = 4, .direct_depth = 0}));

TEST(RcChannelClose, EndsInTimeWhenThePeerHasClosedAndReadsNothing) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_start = 16, .units_max = 4096, .connections_max = 64, .close_timeout_ms = 50});
	auto [a, b] = transports.connect();
	testing_tools::fill(loop, *a);
	b->close();
	loop.complete(until(loop, [&] { return a->closed(); }));
	EXPECT_TRUE(a->closed());
	loop.abandon_spawned();
}

TEST(RcChannelClose, EndsInTimeWhenThePeerNeverAnswers) {
	async::Loop loop, stalled;
	testing_tools::TwoTransports transports{loop, stalled};
	transports.open({.units_max = 4096, .connections_max = 4, .close_timeout_ms = 50});
	auto [a, b] = transports.connect();
	a->close();
	EXPECT_FALSE(a->closed());
	loop.complete(until(loop, [&] { return a->closed(); }));
	EXPECT_NE(a->reason().find("does not close in time"), std::string::npos) << a->reason();
}

// Expects that every buffer is posted and granted to no connection, and that nothing else is in
// use.
void expect_all_back(async::Loop& loop, RcTransport& transport) {
	loop.complete(until(
		loop, [&] { return transport.pinned_bytes() == transport.credits_free() * transport.options().unit_bytes; }));
	EXPECT_EQ(transport.pinned_bytes(), transport.credits_free() * transport.options().unit_bytes);
	EXPECT_EQ(transport.channels() + transport.memory().in_use() + transport.windows_in_use(), 0u);
}

TEST(RcChannelClose, AThousandByBothSidesAtOnceEndThemAllAndGiveTheirMemoryBack) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	// A slow NIC needs more than a second for all of them (verbena run --adversary).
	transports.open({.units_max = 16'384, .connections_max = 1000, .close_timeout_ms = 60'000});
	std::vector<testing_tools::RcPair> pairs;
	for (int i = 0; i < 1000; ++i) pairs.push_back(transports.connect());
	for (auto& [a, b] : pairs) {
		a->close();
		b->close();
	}
	const auto both_closed = [](const testing_tools::RcPair& pair) { return pair.a->closed() && pair.b->closed(); };
	loop.complete(until(loop, [&] { return std::ranges::all_of(pairs, both_closed); }));
	for (const auto& [a, b] : pairs) EXPECT_EQ(a->reason() + b->reason(), "");
	pairs.clear();
	for (std::size_t i : {0, 1}) {
		EXPECT_EQ(transports[i].counters().channels_lost, 0u);
		expect_all_back(loop, transports[i]);
	}
}

Task<void> say_and_hear(Channel& client, int& heard) {
	const auto sent = co_await client.send(bytes_of("hello"));
	EXPECT_TRUE(sent.has_value()) << client.reason();
	const auto answer = co_await client.receive();
	heard += answer.has_value();
}

// Serves one client until it is gone, which frees its place.
Task<void> serve(std::unique_ptr<RcChannel> channel) { co_await echo(*channel); }

TEST(RcChannelEnd, MakesRoomForAsManyClientsOnAFullServer) {
	constexpr std::uint32_t full = 64;
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_max = 4096, .connections_max = full});
	for (int round = 0; round < 2; ++round) {
		std::vector<std::unique_ptr<RcChannel>> clients;
		int heard = 0;
		for (std::uint32_t i = 0; i < full; ++i) {
			auto [client, server] = transports.connect();
			clients.push_back(std::move(client));
			loop.spawn(serve(std::move(server)));
			loop.spawn(say_and_hear(*clients.back(), heard));
		}
		EXPECT_FALSE(transports[1].offer().has_value());
		loop.complete(until(loop, [&] { return heard == full; }));
		EXPECT_EQ(heard, static_cast<int>(full));
		clients.clear();  // without close()
		loop.complete(until(loop, [&] { return transports[1].objects().queue_pairs == 0; }));
		ASSERT_EQ(transports[1].objects().queue_pairs, 0u);
	}
	for (std::size_t i : {0, 1}) expect_all_back(loop, transports[i]);
}

// Posts frames that no correct channel sends, directly to the queue pair, and waits until they have
// arrived.
void post_raw(RcChannel& from, std::vector<std::vector<std::byte>> frames) {
	for (std::vector<std::byte>& each : frames) {
		ibv_sge piece{
			.addr = reinterpret_cast<std::uint64_t>(each.data()), .length = static_cast<std::uint32_t>(each.size())};
		ibv_send_wr request{
			.wr_id = send_mark, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
		if (&each == &frames.back()) request.send_flags |= IBV_SEND_SIGNALED;
		ibv_send_wr* bad = nullptr;
		ASSERT_EQ(ibv_post_send(from.queue_pair(), &request, &bad), 0);
	}
	ibv_wc done{.status = IBV_WC_GENERAL_ERR};
	const Nanoseconds deadline = monotonic_now() + 10'000'000'000;
	while (ibv_poll_cq(from.queue_pair()->send_cq, 1, &done) == 0 && monotonic_now() < deadline) {}
	EXPECT_EQ(done.status, IBV_WC_SUCCESS);
}

std::vector<std::byte> frame_of(const FrameHeader& header, std::size_t bytes = FrameHeader::bytes) {
	std::vector<std::byte> frame(std::max(bytes, FrameHeader::bytes));
	header.write(frame.data());
	frame.resize(bytes);
	return frame;
}

TEST_F(RcChannels, ASecondCloseChangesNothing) {
	auto [a, b] = connect();
	post_raw(*a, std::vector<std::vector<std::byte>>(2, frame_of({.kind = FrameKind::close, .limit = 1})));
	loop_.complete([](Channel& channel) -> Task<void> {
		const auto message = co_await channel.receive();
		EXPECT_EQ(message.error(), Trouble::closed);
		co_await channel.until_closed();
	}(*b));
	EXPECT_EQ(b->reason(), "");
	EXPECT_EQ(transports_[1].counters().frames_sent, 1u);
	EXPECT_EQ(transports_[1].counters().channels_lost, 0u);
}

TEST(RcTransportOptions, AWindowIsAtLeastOneFrameAndAtMostAReceiveQueue) {
	async::Loop loop;
	const auto window = [&](std::uint32_t first, std::uint32_t max) {
		const RcOptions options{.window = {.first = first, .max = max}, .units_start = 16, .units_max = 4096};
		return RcTransport::open(loop, testing_tools::test_device(), options).value()->options().window;
	};
	EXPECT_EQ(window(5, 1'000'000).max, 0xffffu);
	EXPECT_EQ(window(5, 100).max, 100u);
	EXPECT_EQ(window(0, 0).max, 1u);
	EXPECT_EQ(window(0, 0).first, 1u);
	EXPECT_EQ(window(200, 100).first, 100u);
}

// Regression: frames that had arrived behind the one that ended the channel were dropped with the
// queue pair, and their buffers were never posted again.
TEST(RcChannelEnd, LeavesTheSharedReceiveQueueAllItsBuffers) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_start = 64, .units_max = 96, .units_low = 16, .connections_max = 64, .poll_batch = 1});
	for (int round = 0; round < 10; ++round) {
		auto [hostile, server] = transports.connect();
		std::vector<std::vector<std::byte>> frames(21, frame_of({.kind = FrameKind::credit, .limit = 1}));
		frames[0] = frame_of({}, 4);
		post_raw(*hostile, frames);
		if (HasFailure()) return;  // there were no buffers for them
		loop.complete([](std::unique_ptr<RcChannel>& channel) -> Task<void> {
			const auto message = co_await channel->receive();
			EXPECT_FALSE(message.has_value());
			channel.reset();  // in the turn in which the frames arrive
		}(server));
	}
	auto [client, server] = transports.connect();
	bool answered = false;
	loop.spawn(echo(*server));
	loop.spawn([](Channel& channel, bool& answered) -> Task<void> {
		co_await channel.send(bytes_of("still served?"));
		const auto message = co_await channel.receive();
		answered = message.has_value();
	}(*client, answered));
	loop.complete(until(loop, [&] { return answered; }));
	EXPECT_TRUE(answered);
	loop.abandon_spawned();
}

TEST(RcChannelEnd, ForAFrameThatBreaksTheProtocolLeavesAsManyCreditsAsBuffers) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open();
	RcTransport& server = transports[1];
	for (int round = 0; round < 10; ++round) {
		auto [hostile, channel] = transports.connect();
		post_raw(*hostile, {std::vector<std::byte>(1)});
		loop.complete(until(loop, [&] { return channel->closed(); }));
		EXPECT_NE(channel->reason().find("a frame without a header"), std::string::npos) << channel->reason();
	}
	loop.complete(until(loop, [&] { return server.draining() == 0; }));
	EXPECT_EQ(server.pinned_bytes(), server.credits_free() * server.options().unit_bytes);
}

TEST_F(RcChannels, APeerThatAsksForCreditsTimeAfterTimeTakesNoBuffersOfOthers) {
	auto [a, b] = connect();
	post_raw(*a, std::vector<std::vector<std::byte>>(8, frame_of({.kind = FrameKind::credit, .limit = 1})));
	loop_.complete(until(loop_, [&] { return b->closed(); }));
	EXPECT_NE(b->reason().find("a second control frame"), std::string::npos) << b->reason();
}

TEST_F(RcChannels, AnOfferOfAnotherMessageDoesNotFillTheOneThatHasBegun) {
	auto [a, b] = connect();
	std::vector<std::byte> frame = frame_of({.limit = 1});
	for (std::uint32_t total : {1'000'000u, 900'000u}) {
		std::array<std::byte, MessageHeader::bytes + Offer::bytes> message;
		MessageHeader{.kind = MessageKind::offer, .length = Offer::bytes}.write(message.data());
		Offer{.length = 4096, .total = total}.write(message.data() + MessageHeader::bytes);
		frame.insert(frame.end(), message.begin(), message.end());
	}
	post_raw(*a, {frame});
	loop_.complete(until(loop_, [&] { return b->closed(); }));
	EXPECT_NE(b->reason().find("an offer for another message"), std::string::npos) << b->reason();
}

TEST(RcChannelMemory, IsTakenFromAPeerThatStallsWithinAMessageWhenOthersWait) {
	async::Loop loop;
	testing_tools::TwoTransports transports{loop};
	transports.open({.units_max = 4096, .connections_max = 8, .memory = {.max = 1 << 20}});
	auto [still, holder] = transports.connect();
	auto [sender, receiver] = transports.connect();
	std::vector<std::byte> frame = frame_of({.limit = 1}, FrameHeader::bytes + MessageHeader::bytes + 1);
	MessageHeader{.kind = MessageKind::first, .length = 900'000}.write(frame.data() + FrameHeader::bytes);
	post_raw(*still, {frame});
	loop.complete(until(loop, [&] { return transports[1].memory().in_use() > 500'000; }));
	loop.spawn([](Channel& channel) -> Task<void> {
		const std::vector<std::byte> large(900'000);
		co_await channel.send(large);
	}(*sender));
	loop.complete(until(loop, [&] { return holder->closed(); }));
	EXPECT_NE(holder->reason().find("makes no progress within a message"), std::string::npos) << holder->reason();
	holder.reset();
	loop.complete([](Channel& channel) -> Task<void> {
		const auto message = co_await channel.receive();
		EXPECT_TRUE(message && message->bytes().size() == 900'000);
	}(*receiver));
	loop.abandon_spawned();
}

TEST_F(RcChannels, ThousandsComeAndGoWithTheSameMemory) {
	for (int round = 0; round < 300; ++round) {
		// On Soft-RoCE before Linux 6.5 a queue pair drains for 200 ms (decision 52).
		loop_.run_until([&] { return !transports_[0].full() && !transports_[1].full(); });
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
