// What every channel does, whatever carries it.
#include "lib/channel/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lib/channel/rc_fixture.h"
#include "lib/channel/setup/fixture.h"
#include "lib/channel/socket_fixture.h"
#include "lib/channel/tcp_channel.h"

namespace verbena::channel {
namespace {

using async::Task;

using testing_tools::bytes_of;
using testing_tools::echo;

std::string text_of(const Message& message) { return {reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()}; }

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

TEST_P(Channels, AnEcho) {
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
	std::vector<std::size_t> sizes{0, 1, 3, 240, 244, 245, 900, 1011, 1012, 1013, 1024, 2024, 2025, 4096, 65'536, 1'000'003};
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
				if (message->bytes()[i] != static_cast<std::byte>(i * 7 + size)) co_return ADD_FAILURE() << size << " at " << i;
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

TEST_P(Channels, BothCloseAtOnce) {
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
		const std::span<const std::byte> large(reinterpret_cast<const std::byte*>(&channel), (64u << 20) + 1);  // never looked at
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
	// Until nothing moves any more: buffers of both ends and of the kernel are full.
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

INSTANTIATE_TEST_SUITE_P(EveryCarrier, Channels, ::testing::Values(Carrier::rc, Carrier::tcp, Carrier::tcp_tls), [](const auto& parameter) {
	return parameter.param == Carrier::rc ? "rc" : parameter.param == Carrier::tcp ? "tcp" : "tcp_tls";
});

// Who owns the failed channel may have something to end first, such as a function that still runs.
TEST(TcpChannel, ThatFailedLetsItsPeerGoAtOnce) {
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

}  // namespace
}  // namespace verbena::channel
