// SPDX-License-Identifier: Apache-2.0
// Logical channels without a carrier: two ends whose every step is chosen at random, by seeds.
// mux_carrier_test.cc has real carriers.
#include "lib/channel/mux.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>

#include "base/random.h"
#include "lib/async/job.h"

namespace verbena::channel {
namespace {

using async::Task;

std::span<const std::byte> text_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(MuxFrame, AFrameThatItsMessageCannotHoldIsRefused) {
	std::byte bytes[MuxFrame::bytes + 3];
	MuxFrame{.id = 7, .kind = MuxKind::whole, .length = 3}.write(bytes);
	EXPECT_TRUE(MuxFrame::read(bytes).has_value());
	EXPECT_FALSE(MuxFrame::read(std::span(bytes).first(MuxFrame::bytes + 2)).has_value());
	EXPECT_FALSE(MuxFrame::read(std::span(bytes).first(MuxFrame::bytes - 1)).has_value());
	bytes[4] = std::byte{10};
	EXPECT_FALSE(MuxFrame::read(bytes).has_value());
}

TEST(MuxWindow, ASenderWhosePeerHasTakenEverythingHasRoomForTheLargestFrame) {
	for (std::uint32_t window : {mux_window_min, 1000u, 4097u, 65'536u}) {
		MuxSendWindow send;
		MuxReceiveWindow receive(window);
		send.open(window);
		Random random(window);
		for (int i = 0; i < 1000; ++i) {
			const auto charge = static_cast<std::uint32_t>(random.below(send.frame_max() + 1)) + mux_charge;
			ASSERT_GE(send.available(), charge);
			send.sent(charge);
			ASSERT_TRUE(receive.arrived(charge));
			receive.released(charge);
			if (receive.due()) {
				ASSERT_TRUE(send.learn(receive.tell()));
			}
		}
	}
}

TEST(MuxWindow, ALimitBeyondTheWindowIsNotBelieved) {
	MuxSendWindow send;
	send.open(1000);
	EXPECT_TRUE(send.learn(900));  // an older one
	EXPECT_FALSE(send.learn(1001));
}

// Two ends whose carrier is two queues in memory; the seed chooses every step.
class TwoEnds {
public:
	explicit TwoEnds(const MuxOptions& options)
		: opener_(loop_, Mux::Side::opener, {.transport = "queue", .peer = "acceptor"}, options, [] {}),
		  acceptor_(
			  loop_, Mux::Side::acceptor, {.transport = "queue", .peer = "opener"}, options, [] {},
			  [this](std::unique_ptr<MuxChannel> channel) { deliver(std::move(channel)); }) {}

	void carry(int from) {
		std::vector<std::byte> batch;
		if ((from == 0 ? opener_ : acceptor_).take(batch)) wires_[from].push_back(std::move(batch));
	}
	void arrive(int at) {
		auto& wire = wires_[1 - at];
		if (wire.empty()) return;
		const std::vector<std::byte> batch = std::move(wire.front());
		wire.pop_front();
		const auto handled = (at == 0 ? opener_ : acceptor_).handle(batch);
		ASSERT_TRUE(handled) << handled.error();
	}
	void turn() {
		loop_.run_until([ran = 0]() mutable { return ran++ > 0; });
	}
	void settle() {
		for (int i = 0; i < 20; ++i) {
			for (int side : {0, 1}) {
				carry(side);
				while (!wires_[side].empty()) arrive(1 - side);
			}
			turn();
		}
	}
	virtual void deliver(std::unique_ptr<MuxChannel> channel) { accepted_.push_back(std::move(channel)); }
	std::unique_ptr<MuxChannel> open(std::uint32_t label) {
		std::unique_ptr<MuxChannel> opened;
		loop_.spawn([](Mux& mux, std::uint32_t label, std::unique_ptr<MuxChannel>& out) -> Task<void> {
			auto opening = mux.open(label);
			auto channel = co_await std::move(opening);
			if (channel) out = std::move(*channel);
		}(opener_, label, opened));
		turn();  // the coroutine runs before anything is carried
		settle();
		return opened;
	}

	virtual ~TwoEnds() { loop_.abandon_spawned(); }

	async::Loop loop_{{.spin = 1'000'000'000}};
	Mux opener_, acceptor_;
	std::deque<std::vector<std::byte>> wires_[2];  // from opener, from acceptor
	std::vector<std::unique_ptr<MuxChannel>> accepted_;
};

// The messages sent and received in one direction of one channel. Their bytes are a function of the
// label and the message's number.
struct Stream {
	std::uint32_t sent = 0, heard = 0, held = 0;
	bool closed = false;  // the receiver has got `closed`
};

std::vector<std::byte> message_of(std::uint32_t label, std::uint32_t number) {
	Random random(label * 1'000'003ull + number);
	const std::size_t sizes[] = {0, 1, 60, 700, 5000, 40'000};
	std::vector<std::byte> bytes(random.below(sizes[random.below(6)] + 1));
	for (auto& each : bytes) each = static_cast<std::byte>(random.below(256));
	return bytes;
}

Task<void> send_all(MuxChannel& channel, std::uint32_t label, std::uint32_t count, Stream& stream) {
	for (std::uint32_t i = 0; i < count; ++i) {
		const auto bytes = message_of(label, i);
		const auto sent = co_await channel.send(bytes);
		if (!sent) co_return;
		++stream.sent;
	}
	channel.close();
}

Task<void> hear_all(async::Loop& loop, MuxChannel& channel, std::uint32_t label, Random& random, Stream& stream) {
	while (true) {
		while (random.below(4) == 0) co_await async::NextTurn(loop);
		const auto message = co_await channel.receive();
		if (!message) {
			EXPECT_EQ(message.error(), Trouble::closed) << channel.reason();
			stream.closed = true;
			co_return;
		}
		const auto wanted = message_of(label, stream.heard);
		EXPECT_TRUE(std::ranges::equal(message->bytes(), wanted)) << "label " << label << " message " << stream.heard;
		++stream.heard;
	}
}

TEST(Mux, EverythingArrivesOnceAndInOrderWhateverTheSeed) {
	for (std::uint64_t seed = 1; seed <= 200; ++seed) {
		Random random(seed);
		struct Talking : TwoEnds {
			Talking(const MuxOptions& options, Random& random) : TwoEnds(options), random(random) {}
			void deliver(std::unique_ptr<MuxChannel> channel) override {
				const std::uint32_t label = channel->label();
				loop_.spawn(hear_all(loop_, *channel, label, random, to_acceptor[label]));
				loop_.spawn(send_all(*channel, label + 1000, counts[label], to_opener[label]));
				accepted_.push_back(std::move(channel));
			}
			Random& random;
			std::map<std::uint32_t, Stream> to_acceptor, to_opener;
			std::map<std::uint32_t, std::uint32_t> counts;
		} ends({.window = 2048 + static_cast<std::uint32_t>(random.below(30'000)),
				   .frame_bytes = 256 + static_cast<std::uint32_t>(random.below(10'000)),
				   .batch_bytes = 100 + static_cast<std::uint32_t>(random.below(3000)),
				   .close_timeout_ms = 60'000},
			random);
		const auto channels = 1 + static_cast<std::uint32_t>(random.below(12));
		std::vector<std::unique_ptr<MuxChannel>> opened(channels);
		for (std::uint32_t label = 0; label < channels; ++label) {
			ends.counts[label] = static_cast<std::uint32_t>(random.below(30));
			ends.loop_.spawn([](Talking& ends, std::uint32_t label, std::uint32_t count,
								 std::unique_ptr<MuxChannel>& out) -> Task<void> {
				auto opening = ends.opener_.open(label);
				auto channel = co_await std::move(opening);
				if (!channel) co_return ADD_FAILURE() << channel.error();
				out = std::move(*channel);
				ends.loop_.spawn(hear_all(ends.loop_, *out, label + 1000, ends.random, ends.to_opener[label]));
				auto sending = send_all(*out, label, count, ends.to_acceptor[label]);
				co_await std::move(sending);
			}(ends, label, static_cast<std::uint32_t>(random.below(30)), opened[label]));
		}
		for (int step = 0; step < 100'000 && ends.loop_.spawned() > 0; ++step) {
			switch (random.below(5)) {
				case 0: ends.carry(0); break;
				case 1: ends.carry(1); break;
				case 2: ends.arrive(0); break;
				case 3: ends.arrive(1); break;
				default: ends.turn(); break;
			}
			if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
		}
		ASSERT_EQ(ends.loop_.spawned(), 0u) << "somebody waits for ever, seed " << seed;
		ends.settle();
		for (std::uint32_t label = 0; label < channels; ++label) {
			EXPECT_EQ(ends.to_acceptor[label].heard, ends.to_acceptor[label].sent) << "seed " << seed;
			EXPECT_EQ(ends.to_opener[label].heard, ends.to_opener[label].sent) << "seed " << seed;
			EXPECT_TRUE(opened[label]->closed() && opened[label]->reason().empty()) << "seed " << seed;
		}
		EXPECT_EQ(ends.opener_.channels() + ends.acceptor_.channels(), 0u) << "seed " << seed;
	}
}

TEST(Mux, AStalledProgramIsSentNoMoreThanItsWindow) {
	TwoEnds ends({.window = 8192});
	auto channel = ends.open(1);
	ASSERT_TRUE(channel);
	int sent = 0;
	ends.loop_.spawn([](MuxChannel& channel, int& sent) -> Task<void> {
		const std::vector<std::byte> bytes(1000);
		while (co_await channel.send(bytes)) ++sent;
	}(*channel, sent));
	ends.settle();
	EXPECT_EQ(sent, 7);  // each is charged 1,032 bytes
}

TEST(Mux, AMessageLargerThanTheWindowArrives) {
	TwoEnds ends({.window = 2048});
	auto channel = ends.open(1);
	ASSERT_TRUE(channel);
	const std::vector<std::byte> large(100'000, std::byte{5});
	std::size_t heard = 0;
	ends.loop_.spawn([](MuxChannel& channel, const std::vector<std::byte>& bytes) -> Task<void> {
		EXPECT_TRUE(co_await channel.send(bytes));
	}(*channel, large));
	ends.loop_.spawn([](MuxChannel& channel, std::size_t& heard) -> Task<void> {
		const auto message = co_await channel.receive();
		if (message) heard = message->bytes().size();
	}(*ends.accepted_[0], heard));
	for (int i = 0; i < 10; ++i) ends.settle();
	EXPECT_EQ(heard, large.size());
}

TEST(Mux, AnAbandonedSendInTheMiddleOfItsMessageEndsItsChannelAndNoOther) {
	TwoEnds ends({.window = 2048});
	auto one = ends.open(1), other = ends.open(2);
	const std::vector<std::byte> large(100'000);
	{
		async::Job abandoned(ends.loop_, [](MuxChannel& channel, const std::vector<std::byte>& bytes) -> Task<void> {
			co_await channel.send(bytes);
		}(*one, large));
		ends.settle();
	}
	ends.loop_.spawn([](MuxChannel& channel) -> Task<void> {
		const auto sent = co_await channel.send(text_bytes("next"));
		EXPECT_FALSE(sent.has_value());
	}(*one));
	ends.settle();
	EXPECT_TRUE(ends.accepted_[0]->closed());
	EXPECT_FALSE(other->closed() || ends.accepted_[1]->closed());
}

TEST(Mux, LateFramesDoNotReachANewChannelInTheSamePlace) {
	TwoEnds ends({.close_timeout_ms = 60'000});
	auto first = ends.open(1);
	std::unique_ptr<MuxChannel> left = std::move(ends.accepted_[0]);
	ends.loop_.spawn([](MuxChannel& channel) -> Task<void> { co_await channel.send(text_bytes("late")); }(*left));
	ends.turn();
	ends.carry(1);  // in flight when the opener destroys the channel
	const std::uint32_t id = first->id();
	first.reset();
	auto second = ends.open(2);
	ASSERT_TRUE(second);
	EXPECT_EQ(MuxId::slot(second->id()), MuxId::slot(id));
	EXPECT_NE(second->id(), id);
	ends.settle();
	bool heard = false;
	ends.loop_.spawn([](MuxChannel& channel, bool& heard) -> Task<void> {
		co_await channel.receive();
		heard = true;
	}(*second, heard));
	ends.settle();
	EXPECT_FALSE(heard);
	EXPECT_TRUE(left->closed());
}

// Regression: the new channel's open overtook the old one's reset, which is a breach of the
// protocol and ended the carrier.
TEST(Mux, AChannelMayBeOpenedInThePlaceOfOneThatWasJustDropped) {
	TwoEnds ends({});
	for (std::uint32_t label = 1; label < 20; ++label) {
		auto channel = ends.open(label);
		ASSERT_TRUE(channel) << label;
		EXPECT_EQ(MuxId::slot(channel->id()), 0u);
		channel.reset();
	}
	ends.settle();
	EXPECT_EQ(ends.acceptor_.channels(), 0u);
}

std::vector<std::byte> frame_of(std::uint32_t id, MuxKind kind, std::vector<std::uint32_t> numbers) {
	std::vector<std::byte> bytes(MuxFrame::bytes + numbers.size() * 4);
	MuxFrame{.id = id, .kind = kind, .length = static_cast<std::uint16_t>(numbers.size() * 4)}.write(bytes.data());
	if (!numbers.empty()) std::memcpy(bytes.data() + MuxFrame::bytes, numbers.data(), numbers.size() * 4);
	return bytes;
}

TEST(Mux, APeerThatOpensAndDropsWithoutReadingLeavesNothingPending) {
	TwoEnds ends({});
	ASSERT_TRUE(ends.acceptor_.handle(frame_of(0, MuxKind::hello, {1, 10, 1 << 20})));
	for (std::uint32_t round = 0; round < 10'000; ++round) {
		ASSERT_TRUE(ends.acceptor_.handle(frame_of(MuxId::of(3, round), MuxKind::open, {9, 4096})));
		ASSERT_TRUE(ends.acceptor_.handle(frame_of(MuxId::of(3, round), MuxKind::reset, {1})));
		ends.accepted_.clear();
	}
	std::size_t owed = 0;
	for (std::vector<std::byte> batch; ends.acceptor_.take(batch);) owed += batch.size();
	EXPECT_LT(owed, 100u);
}

TEST(Mux, APeerThatOpensTooManyWithoutReadingLosesItsCarrier) {
	TwoEnds ends({.channels_max = 2});
	ASSERT_TRUE(ends.acceptor_.handle(frame_of(0, MuxKind::hello, {1, 10, 1 << 20})));
	std::string error;
	for (std::uint32_t round = 0; round < 10'000 && error.empty(); ++round)
		if (const auto handled = ends.acceptor_.handle(frame_of(3, MuxKind::open, {9, 4096})); !handled)
			error = handled.error();
	EXPECT_NE(error.find("without reading the answers"), std::string::npos) << error;
}

// The message before the close never has room.
TEST(Mux, AChannelThatCannotCloseInTimeEndsAndItsPeerIsNotified) {
	TwoEnds ends({.window = 4096, .close_timeout_ms = 20});
	const auto channel = ends.open(1);
	ends.loop_.spawn([](MuxChannel& channel) -> Task<void> {
		const std::vector<std::byte> message(1000);
		while (co_await channel.send(message)) {}
	}(*channel));
	ends.settle();
	channel->close();
	ends.loop_.run_until([&] { return channel->closed(); });
	EXPECT_NE(channel->reason().find("does not close in time"), std::string::npos) << channel->reason();
	ends.settle();
	EXPECT_TRUE(ends.accepted_[0]->closed());
	EXPECT_NE(ends.accepted_[0]->reason().find("waited too long"), std::string::npos) << ends.accepted_[0]->reason();
	EXPECT_EQ(ends.opener_.channels() + ends.acceptor_.channels(), 0u);
}

TEST(Mux, AFullPeerRefusesWithTheReason) {
	TwoEnds ends({.channels_max = 2});
	auto one = ends.open(1), two = ends.open(2), three = ends.open(3);
	EXPECT_TRUE(one && two && !three);
	one->close();
	ends.accepted_[0]->close();
	ends.settle();
	EXPECT_TRUE(one->closed() && ends.accepted_[0]->closed());
	EXPECT_TRUE(ends.open(4));
}

TEST(Mux, FramesThatBreakTheProtocolAreRefused) {
	const auto frame = frame_of;
	const auto hello = frame(0, MuxKind::hello, {1, 10, 1 << 20}), open = frame(3, MuxKind::open, {9, 4096});
	const std::vector<std::pair<std::string, std::vector<std::vector<std::byte>>>> cases{
		{"no hello first", {open}},
		{"a second hello", {hello, hello}},
		{"version other than 1", {frame(0, MuxKind::hello, {2, 10, 1})}},
		{"an id that is in use", {hello, open, open}},
		{"an invalid window", {hello, frame(3, MuxKind::open, {9, 1})}},
		{"impossible credits", {hello, open, frame(3, MuxKind::credit, {1 << 20})}},
		{"an invalid accept", {hello, open, frame(3, MuxKind::accept, {4096})}},
		{"length does not fit its kind", {hello, open, frame(3, MuxKind::credit, {})}},
		{"length does not fit its kind", {hello, open, frame(3, MuxKind::credit, {1, 2})}},
		{"length does not fit its kind", {hello, open, frame(3, MuxKind::accept, {})}},
		{"length does not fit its kind", {hello, open, frame(3, MuxKind::reset, {})}},
		{"parts of a message out of order", {hello, open, frame(3, MuxKind::more, {1})}},
		{"all of its message", {hello, open, frame(3, MuxKind::first, {4, 1})}},
		{"above the largest size", {hello, open, frame(3, MuxKind::first, {200, 1})}},
		{"longer than announced", {hello, open, frame(3, MuxKind::first, {5, 1}), frame(3, MuxKind::more, {1})}},
		{"after the close", {hello, open, frame(3, MuxKind::close, {}), frame(3, MuxKind::whole, {1})}},
		{"without a credit",
			{hello, open, std::vector<std::byte>(frame(3, MuxKind::whole, std::vector<std::uint32_t>(33)))}},
	};
	for (const auto& [word, batches] : cases) {
		TwoEnds ends({.window = mux_window_min, .message_max = 150});
		std::string error;
		for (const auto& each : batches) {
			const auto handled = ends.acceptor_.handle(each);
			if (!handled) error = handled.error();
			// More than a window, in frames that are allowed one by one.
			for (int i = 0; word == "without a credit" && i < 4 && error.empty() && &each == &batches.back(); ++i)
				if (const auto more = ends.acceptor_.handle(each); !more) error = more.error();
		}
		EXPECT_NE(error.find(word), std::string::npos) << word << ": " << error;
	}
}

TEST(Mux, ASmallLogicalChannelStaysBelowAKibibyte) { EXPECT_LE(sizeof(MuxChannel), 400u); }

// Jain's fairness index: 1 if all got the same, 1/n if one got everything.
double fairness(const std::vector<double>& shares) {
	double sum = 0, squares = 0;
	for (double each : shares) sum += each, squares += each * each;
	return sum * sum / (static_cast<double>(shares.size()) * squares);
}

TEST(Mux, ChannelsThatAlwaysHaveSomethingToSendGetAsMuchWhateverTheSizesOfTheirMessages) {
	TwoEnds ends({.window = 1 << 20});
	constexpr int count = 16;
	std::vector<std::unique_ptr<MuxChannel>> channels;
	std::vector<double> heard(count);
	for (int i = 0; i < count; ++i) {
		channels.push_back(ends.open(static_cast<std::uint32_t>(i)));
		ends.loop_.spawn([](MuxChannel& channel, double& heard) -> Task<void> {
			while (const auto message = co_await channel.receive())
				heard += static_cast<double>(message->bytes().size());
		}(*ends.accepted_.back(), heard[static_cast<std::size_t>(i)]));
		// 1 KiB to 128 KiB, with enough senders that some always wait.
		const std::size_t size = std::size_t{1024} << i % 8;
		for (std::size_t sender = 0; sender < std::max<std::size_t>(1, (128 << 10) / size); ++sender)
			ends.loop_.spawn([](MuxChannel& channel, std::size_t size) -> Task<void> {
				const std::vector<std::byte> bytes(size);
				while (co_await channel.send(bytes)) {}
			}(*channels.back(), size));
	}
	for (int step = 0; step < 20'000; ++step) {
		ends.carry(0);
		ends.arrive(1);
		ends.turn();
		ends.carry(1);
		ends.arrive(0);
	}
	EXPECT_GT(heard[0], 100'000.0);
	EXPECT_GE(fairness(heard), 0.95);
	ends.loop_.abandon_spawned();
}

}  // namespace
}  // namespace verbena::channel
