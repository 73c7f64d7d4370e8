// SPDX-License-Identifier: Apache-2.0
// Logical channels on real carriers: RC and TCP.
#include <gtest/gtest.h>

#include <string>

#include "lib/channel/mux_carrier.h"
#include "lib/channel/rc_fixture.h"
#include "lib/channel/socket_fixture.h"
#include "lib/channel/tcp_channel.h"

namespace verbena::channel {
namespace {

using async::Task;

enum class CarrierKind { rc, tcp };

class MuxCarriers : public ::testing::TestWithParam<CarrierKind> {
protected:
	void connect(const MuxOptions& options = {}) {
		std::unique_ptr<Channel> a, b;
		if (GetParam() == CarrierKind::rc) {
			transports_.open();
			auto pair = transports_.connect();
			a = std::move(pair.a);
			b = std::move(pair.b);
		} else {
			auto sockets = testing_tools::connected_sockets(loop_);
			a = std::make_unique<TcpChannel>(loop_, std::move(sockets[0]), std::nullopt, "b", TcpOptions{});
			b = std::make_unique<TcpChannel>(loop_, std::move(sockets[1]), std::nullopt, "a", TcpOptions{});
		}
		opener_ = std::make_unique<MuxCarrier>(std::move(a), Mux::Side::opener, options);
		acceptor_ = std::make_unique<MuxCarrier>(std::move(b), Mux::Side::acceptor, options,
			[this](std::unique_ptr<MuxChannel> channel) { loop_.spawn(serve(std::move(channel))); });
	}
	// Label 0 stalls: it is never received from.
	Task<void> serve(std::unique_ptr<MuxChannel> channel) {
		++served_;
		if (channel->label() == 0) co_await async::Park(stalled_);
		while (auto message = co_await channel->receive())
			if (!co_await channel->send(message->bytes())) break;
		channel->close();
		co_await channel->until_closed();
		--served_;
	}
	~MuxCarriers() override { loop_.abandon_spawned(); }

	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
	async::List<async::Waiter> stalled_;
	std::unique_ptr<MuxCarrier> opener_, acceptor_;
	int served_ = 0;
};

Task<void> ask(Mux& mux, std::uint32_t label, std::size_t size, int times, int& good) {
	auto opening = mux.open(label);
	auto channel = co_await std::move(opening);
	if (!channel) co_return ADD_FAILURE() << channel.error();
	std::vector<std::byte> bytes(size);
	for (int i = 0; i < times; ++i) {
		for (std::size_t at = 0; at < size; ++at)
			bytes[at] = static_cast<std::byte>(label + at + static_cast<std::size_t>(i));
		const auto sent = co_await (*channel)->send(bytes);
		EXPECT_TRUE(sent.has_value());
		const auto echo = co_await (*channel)->receive();
		if (!echo) co_return ADD_FAILURE() << (*channel)->reason();
		EXPECT_TRUE(std::ranges::equal(echo->bytes(), bytes));
	}
	(*channel)->close();
	co_await (*channel)->until_closed();
	EXPECT_EQ((*channel)->reason(), "");
	++good;
}

TEST_P(MuxCarriers, ThousandChannelsOnOneCarrier) {
	connect();
	int good = 0;
	for (std::uint32_t label = 1; label <= 1000; ++label) loop_.spawn(ask(opener_->mux(), label, label % 300, 5, good));
	loop_.run_until([&] { return good == 1000 && served_ == 0; });
	const MuxCounters& counters = opener_->mux().counters();
	EXPECT_EQ(counters.opened, 1000u);
	EXPECT_EQ(counters.messages_sent, 5000u);
	EXPECT_LT(counters.batches_sent, counters.messages_sent) << "messages of several channels share a carrier message";
	EXPECT_EQ(opener_->mux().channels() + acceptor_->mux().channels(), 0u);
}

TEST_P(MuxCarriers, LargeMessagesBesideSmallOnes) {
	connect();
	int good = 0;
	for (std::uint32_t label = 1; label <= 8; ++label)
		loop_.spawn(ask(opener_->mux(), label, label % 2 == 0 ? 1'000'003 : 64, label % 2 == 0 ? 2 : 200, good));
	loop_.run_until([&] { return good == 8; });
}

TEST_P(MuxCarriers, AStalledChannelBlocksNoOther) {
	connect();
	int good = 0;
	std::unique_ptr<MuxChannel> stalled;
	loop_.spawn([](Mux& mux, std::unique_ptr<MuxChannel>& out) -> Task<void> {
		auto opening = mux.open(0);
		auto channel = co_await std::move(opening);
		out = std::move(*channel);
		const std::vector<std::byte> bytes(10'000);
		while (co_await out->send(bytes)) {}
	}(opener_->mux(), stalled));
	for (std::uint32_t label = 1; label <= 20; ++label) loop_.spawn(ask(opener_->mux(), label, 5000, 50, good));
	loop_.run_until([&] { return good == 20; });
	EXPECT_FALSE(stalled->closed());
}

TEST_P(MuxCarriers, ALostCarrierEndsItsChannels) {
	connect();
	std::string reason;
	loop_.complete([](MuxCarrier& opener, std::unique_ptr<MuxCarrier>& acceptor, std::string& reason) -> Task<void> {
		auto opening = opener.mux().open(5);
		auto channel = co_await std::move(opening);
		EXPECT_TRUE(channel.has_value());
		acceptor.reset();
		const auto message = co_await (*channel)->receive();
		EXPECT_FALSE(message.has_value());
		if (!message) {
			EXPECT_EQ(message.error(), Trouble::lost);
		}
		const auto sent = co_await (*channel)->send(std::as_bytes(std::span("late")));
		EXPECT_FALSE(sent.has_value());
		reason = (*channel)->reason();
		auto again = opener.mux().open(6);
		const auto refused = co_await std::move(again);
		EXPECT_FALSE(refused.has_value());
	}(*opener_, acceptor_, reason));
	EXPECT_NE(reason, "");
	EXPECT_TRUE(opener_->ended());
}

TEST_P(MuxCarriers, ACarrierClosesAfterTheFramesOfItsChannels) {
	connect();
	int good = 0;
	loop_.spawn(ask(opener_->mux(), 1, 100, 1, good));
	loop_.run_until([&] { return good == 1; });
	opener_->close();
	loop_.complete([](MuxCarrier& a, MuxCarrier& b) -> Task<void> {
		co_await a.until_ended();
		co_await b.until_ended();
	}(*opener_, *acceptor_));
	EXPECT_EQ(opener_->reason() + acceptor_->reason(), "");
}

INSTANTIATE_TEST_SUITE_P(EveryCarrier, MuxCarriers, ::testing::Values(CarrierKind::rc, CarrierKind::tcp),
	[](const auto& parameter) { return parameter.param == CarrierKind::rc ? "rc" : "tcp"; });

}  // namespace
}  // namespace verbena::channel
