// SPDX-License-Identifier: Apache-2.0
// The behaviour that all channels share, over RC, TCP and TLS and as logical channels.
#include "lib/channel/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/rc_fixture.h"
#include "lib/channel/setup/fixture.h"
#include "lib/channel/socket_fixture.h"
#include "lib/channel/tcp_channel.h"

namespace verbena::channel {
namespace {

using async::Task;

using testing_tools::bytes_of;
using testing_tools::echo;
using testing_tools::until;

std::string text_of(const Message& message) {
	return {reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()};
}

enum class Carrier { rc, tcp, tcp_tls };

class Channels : public ::testing::TestWithParam<Carrier> {
protected:
	struct Pair {
		std::unique_ptr<Channel> a, b;
	};

	Pair connect() {
		if (GetParam() == Carrier::rc) return connect_rc();
		std::optional<TlsSession> tls[2];
		if (GetParam() == Carrier::tcp_tls) {
			tls[0] = TlsSession::client(testing_tools::made(make_client_context(files_.client)), "127.0.0.1");
			tls[1] = TlsSession::server(testing_tools::made(make_server_context(files_.server)));
			testing_tools::converse(*tls[0], *tls[1]);
		}
		auto sockets = testing_tools::connected_sockets(loop_);
		return {.a = std::make_unique<TcpChannel>(loop_, std::move(sockets[0]), std::move(tls[0]), "b", TcpOptions{}),
			.b = std::make_unique<TcpChannel>(loop_, std::move(sockets[1]), std::move(tls[1]), "a", TcpOptions{})};
	}

	Pair connect_rc() {
		transports_.open();
		auto [a, b] = transports_.connect();
		return {.a = std::move(a), .b = std::move(b)};
	}

	testing_tools::AuthorityFiles files_;
	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
};

TEST_P(Channels, AnEchoReturnsEveryMessage) {
	auto [a, b] = connect();
	std::string heard;
	loop_.spawn(echo(*b));
	loop_.complete([](Channel& channel, std::string& out) -> Task<void> {
		EXPECT_TRUE(co_await channel.send(bytes_of("hello "), bytes_of("rdma")));
		auto message = co_await channel.receive();
		EXPECT_TRUE(message.has_value());
		out = text_of(*message);
	}(*a, heard));
	EXPECT_EQ(heard, "hello rdma");
	loop_.abandon_spawned();
}

TEST_P(Channels, EverySizeArrivesWholeAndInOrder) {
	auto [a, b] = connect();
	std::vector<std::size_t> sizes{
		0, 1, 3, 240, 244, 245, 900, 1011, 1012, 1013, 1024, 2024, 2025, 4096, 65'536, 1'000'003};
	loop_.spawn([](Channel& channel, const std::vector<std::size_t>& all) -> Task<void> {
		std::vector<std::byte> bytes;
		for (std::size_t size : all) {
			bytes.resize(size);
			for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
			EXPECT_TRUE(co_await channel.send(bytes));
		}
	}(*a, sizes));
	loop_.complete([](Channel& channel, const std::vector<std::size_t>& all) -> Task<void> {
		for (std::size_t size : all) {
			auto message = co_await channel.receive();
			if (!message) co_return ADD_FAILURE() << name_of(message.error()) << " " << channel.reason();
			EXPECT_EQ(message->bytes().size(), size);
			for (std::size_t i = 0; i < message->bytes().size(); ++i) {
				if (message->bytes()[i] != static_cast<std::byte>(i * 7 + size))
					co_return ADD_FAILURE() << size << " at " << i;
			}
		}
	}(*b, sizes));
}

TEST_P(Channels, CloseArrivesAfterEverythingThatWasSent) {
	auto [a, b] = connect();
	loop_.spawn([](Channel& channel) -> Task<void> {
		for (int i = 0; i < 100; ++i) co_await channel.send(bytes_of("word"));
		channel.close();
		const auto late = co_await channel.send(bytes_of("late"));
		EXPECT_FALSE(late.has_value());
	}(*a));
	int heard = 0;
	loop_.complete([](Channel& left, Channel& channel, int& count) -> Task<void> {
		while (true) {
			const auto message = co_await channel.receive();
			if (!message) {
				EXPECT_EQ(message.error(), Trouble::closed);
				break;
			}
			++count;
		}
		co_await channel.until_closed();
		co_await left.until_closed();
	}(*a, *b, heard));
	EXPECT_EQ(heard, 100);
	EXPECT_EQ(a->reason() + b->reason(), "");
}

TEST_P(Channels, BothEndsMayCloseAtOnce) {
	auto [a, b] = connect();
	a->close();
	b->close();
	loop_.complete([](Channel& left, Channel& right) -> Task<void> {
		co_await left.until_closed();
		co_await right.until_closed();
	}(*a, *b));
	EXPECT_EQ(a->reason(), "");
	EXPECT_EQ(b->reason(), "");
}

TEST_P(Channels, AMessageOutlivesItsChannel) {
	auto [a, b] = connect();
	Message kept;
	loop_.complete([](Channel& from, Channel& to, Message& out) -> Task<void> {
		co_await from.send(bytes_of("keep me"));
		auto message = co_await to.receive();
		out = std::move(*message);
	}(*a, *b, kept));
	a.reset();
	b.reset();
	EXPECT_EQ(text_of(kept), "keep me");
	kept = {};
}

TEST_P(Channels, AMessageThatIsTooLargeIsRefusedAndTheChannelStaysUp) {
	auto [a, b] = connect();
	loop_.spawn(echo(*b));
	loop_.complete([](Channel& channel) -> Task<void> {
		const std::span<const std::byte> large(
			reinterpret_cast<const std::byte*>(&channel), (64u << 20) + 1);  // never dereferenced
		const auto refused = co_await channel.send(large);
		EXPECT_FALSE(refused.has_value());
		if (!refused) {
			EXPECT_EQ(refused.error(), Trouble::too_large);
		}
		EXPECT_TRUE(co_await channel.send(bytes_of("still here")));
		const auto message = co_await channel.receive();
		EXPECT_TRUE(message.has_value());
	}(*a));
	loop_.abandon_spawned();
}

TEST_P(Channels, ASenderIsThrottledUntilTheReceiverTakes) {
	auto [a, b] = connect();
	std::size_t sent = 0;
	loop_.spawn([](Channel& channel, std::size_t& done) -> Task<void> {
		const std::vector<std::byte> block(10'000, std::byte{7});
		while (done < 4000) {
			if (!co_await channel.send(block)) co_return;
			++done;
		}
	}(*a, sent));
	// Wait until no more is sent: the buffers of both ends and of the kernel are full.
	loop_.complete([](async::Loop& loop, const std::size_t& done) -> Task<void> {
		for (std::size_t before = ~std::size_t{0}; before != done;) {
			before = done;
			co_await loop.sleep_for(30'000'000);
		}
	}(loop_, sent));
	EXPECT_LT(sent, 4000u);
	loop_.complete([](Channel& channel) -> Task<void> {
		for (int i = 0; i < 4000; ++i) {
			const auto message = co_await channel.receive();
			EXPECT_TRUE(message.has_value());
			if (!message) co_return;
			EXPECT_EQ(message->bytes().size(), 10'000u);
		}
	}(*b));
	EXPECT_EQ(sent, 4000u);
}

// Regression: the next message's bytes completed the abandoned one, and arrived as part of it.
TEST_P(Channels, ASendThatIsAbandonedWithinItsMessageEndsTheChannelAndNoOtherMessageFillsIt) {
	auto [a, b] = connect();
	// Over RC an end notices the loss of its peer only after the peer's first frame.
	const auto heard = [&] { return GetParam() != Carrier::rc || transports_[1].counters().frames_received > 0; };
	const std::vector<std::byte> large(16 << 20);
	bool begun = false;
	{
		async::Job abandoned(loop_, [](Channel& channel, std::span<const std::byte> bytes, bool& begun) -> Task<void> {
			begun = true;
			co_await channel.send(bytes);
		}(*a, large, begun));
		loop_.run_until([&] { return begun && heard(); });
		ASSERT_FALSE(abandoned.done());
	}
	loop_.spawn([](Channel& channel, std::span<const std::byte> bytes) -> Task<void> {
		const auto sent = co_await channel.send(bytes);
		EXPECT_FALSE(sent.has_value());
	}(*a, large));
	bool over = false;
	loop_.spawn([](Channel& channel, bool& over) -> Task<void> {
		const auto message = co_await channel.receive();
		EXPECT_FALSE(message.has_value());
		over = true;
	}(*b, over));
	loop_.complete(until(loop_, [&] { return a->closed(); }));
	EXPECT_NE(a->reason().find("abandoned in the middle"), std::string::npos) << a->reason();
	a.reset();
	loop_.complete(until(loop_, [&] { return over; }));
	EXPECT_TRUE(over);
	loop_.abandon_spawned();
}

INSTANTIATE_TEST_SUITE_P(
	EveryCarrier, Channels, ::testing::Values(Carrier::rc, Carrier::tcp, Carrier::tcp_tls), [](const auto& parameter) {
		return parameter.param == Carrier::rc ? "rc" : parameter.param == Carrier::tcp ? "tcp" : "tcp_tls";
	});

// The owner of the failed channel may keep it for a while, for example while a handler still runs.
TEST(TcpChannel, AFailedChannelEndsItsPeerAtOnce) {
	async::Loop loop;
	auto [ours, peers] = testing_tools::connected_sockets(loop);
	TcpChannel channel(loop, std::move(ours), std::nullopt, "peer", {});
	loop.complete([](async::Descriptor& peer) -> Task<void> {
		std::array<std::byte, 64> nonsense;
		nonsense.fill(std::byte{0xff});
		EXPECT_EQ(async::try_write(peer, nonsense), 64);
		std::array<std::byte, 64> answer;
		while (async::try_read(peer, answer) != 0) co_await async::Wait(peer, async::Wait::For::reading, never);
	}(*peers));
	EXPECT_TRUE(channel.closed());
}

// Regression: bytes behind the closing alert were fed to the TLS session for ever, and the whole
// thread hung.
TEST(TcpChannel, BytesBehindTheClosingAlertAreIgnored) {
	const testing_tools::AuthorityFiles files;
	async::Loop loop;
	auto [ours, peers] = testing_tools::connected_sockets(loop);
	TlsSession peer = TlsSession::client(testing_tools::made(make_client_context(files.client)), "127.0.0.1");
	std::optional<TlsSession> tls = TlsSession::server(testing_tools::made(make_server_context(files.server)));
	testing_tools::converse(peer, *tls);
	peer.close();
	std::vector<std::byte> last(60'000, std::byte{7});
	const std::size_t goodbye = peer.take(last);
	ASSERT_GT(goodbye, 0u);
	ASSERT_LT(goodbye, 1000u);
	TcpChannel channel(loop, std::move(ours), std::move(tls), "peer", {});
	EXPECT_EQ(async::try_write(*peers, last), static_cast<ssize_t>(last.size()));
	loop.complete(until(loop, [&] { return channel.closed(); }));
	EXPECT_TRUE(channel.closed());
	EXPECT_EQ(channel.reason(), "");
}

TEST(TcpChannel, EmptyMessagesThatAreNotReceivedAreBounded) {
	constexpr std::size_t limit = 24 << 20;  // more than the kernel's buffers
	async::Loop loop;
	auto [ours, peers] = testing_tools::connected_sockets(loop);
	TcpChannel channel(loop, std::move(ours), std::nullopt, "peer", {});
	std::size_t taken = 0;
	loop.complete([](async::Descriptor& peer, std::size_t& taken) -> Task<void> {
		const std::vector<std::byte> empty(64 << 10);  // headers of nothing
		while (taken < limit) {
			const ssize_t put = async::try_write(peer, empty);
			if (put > 0) {
				taken += static_cast<std::size_t>(put);
				continue;
			}
			async::Wait room(peer, async::Wait::For::writing, monotonic_now() + 300'000'000);
			const bool some = co_await room;
			if (!some) break;
		}
	}(*peers, taken));
	EXPECT_LT(taken, limit);
	loop.complete([](Channel& channel) -> Task<void> {
		for (int i = 0; i < 50'000; ++i) {
			const auto message = co_await channel.receive();
			if (!message || !message->bytes().empty()) co_return ADD_FAILURE() << channel.reason();
		}
	}(channel));
}

TEST(TcpChannel, EndsInTimeWhenThePeerHasClosedAndReadsNothing) {
	async::Loop loop;
	auto [ours, peers] = testing_tools::connected_sockets(loop);
	TcpChannel channel(loop, std::move(ours), std::nullopt, "peer", {.close_timeout_ms = 50});
	testing_tools::fill(loop, channel);
	EXPECT_FALSE(channel.closed());
	shutdown(peers->fd(), SHUT_WR);
	loop.complete(until(loop, [&] { return channel.closed(); }));
	EXPECT_TRUE(channel.closed());
}

}  // namespace
}  // namespace verbena::channel
