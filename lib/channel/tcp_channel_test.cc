// SPDX-License-Identifier: Apache-2.0
// TCP channels at their limits of time: closing in the middle of a message, and peers that stall.
#include "lib/channel/tcp_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "lib/channel/setup/fixture.h"
#include "lib/channel/setup/stranger.h"
#include "lib/channel/socket_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;

constexpr std::uint32_t patient_ms = 20'000;

// Two ends of a channel in clear or in TLS, on one loop.
class Ends : public ::testing::TestWithParam<bool> {
protected:
	Ends() : sockets_(testing_tools::connected_sockets(loop_)) {
		if (!GetParam()) return;
		tls_[0] = TlsSession::client(testing_tools::made(make_client_context(files_.client)), "127.0.0.1");
		tls_[1] = TlsSession::server(testing_tools::made(make_server_context(files_.server)));
		testing_tools::converse(*tls_[0], *tls_[1]);
	}
	std::unique_ptr<TcpChannel> channel(int end, const TcpOptions& options) {
		return std::make_unique<TcpChannel>(
			loop_, std::move(sockets_[static_cast<std::size_t>(end)]), std::move(tls_[end]), "peer", options);
	}

	async::Loop loop_{{.spin = 0}};
	testing_tools::AuthorityFiles files_;
	std::array<async::Socket, 2> sockets_;
	std::optional<TlsSession> tls_[2];
};
INSTANTIATE_TEST_SUITE_P(
	In, Ends, ::testing::Bool(), [](const auto& parameter) { return parameter.param ? "tls" : "clear"; });

Task<void> send_and_note(Channel& channel, const std::vector<std::byte>& bytes, Channel::Sent& sent) {
	sent = co_await channel.send(bytes);
}

// The half of a message that was sent before close() looked like a broken connection to the peer.
TEST_P(Ends, AMessageThatWasBegunArrivesWholeAlthoughItsChannelIsClosed) {
	const auto from = channel(0, {.close_timeout_ms = patient_ms}), to = channel(1, {.close_timeout_ms = patient_ms});
	const std::vector<std::byte> large(24 << 20, std::byte{3}), later(10);
	Channel::Sent sent[2] = {std::unexpected(Trouble::lost), std::unexpected(Trouble::lost)};
	loop_.spawn(send_and_note(*from, large, sent[0]));
	loop_.spawn(send_and_note(*from, later, sent[1]));
	loop_.complete([](Channel& from, Channel& to, std::size_t size) -> Task<void> {
		co_await async::NextTurn(from.loop());
		from.close();
		const auto message = co_await to.receive();
		EXPECT_TRUE(message.has_value()) << to.reason();
		if (message) {
			EXPECT_EQ(message->bytes().size(), size);
		}
		const auto end = co_await to.receive();
		EXPECT_TRUE(!end && end.error() == Trouble::closed);
		EXPECT_EQ(to.reason(), "");
		co_await from.until_closed();
	}(*from, *to, large.size()));
	EXPECT_TRUE(sent[0].has_value());
	EXPECT_EQ(sent[1], Channel::Sent(std::unexpected(Trouble::closed))) << "it was not begun";
}

// One flipped bit in the length of a record made both ends wait for ever.
TEST_P(Ends, APeerThatStallsInTheMiddleOfAMessageIsLost) {
	std::vector<std::byte> bytes(100, std::byte{1});
	if (GetParam()) {
		tls_[0]->write(bytes);
		bytes.resize(tls_[0]->take(bytes));
		bytes[3] ^= std::byte{1};  // the record's length is 256 more now
	} else {
		MessageHeader{.kind = MessageKind::whole, .length = 1000}.write(bytes.data());
	}
	ASSERT_EQ(async::try_write(*sockets_[0], bytes), static_cast<ssize_t>(bytes.size()));
	const auto to = channel(1, {.stall_timeout_ms = 100});
	loop_.complete([](Channel& to) -> Task<void> {
		const auto message = co_await to.receive();
		EXPECT_TRUE(!message && message.error() == Trouble::lost);
	}(*to));
	EXPECT_NE(to->reason().find("in the middle of a message"), std::string::npos) << to->reason();
}

TEST_P(Ends, APeerThatSaysNothingBetweenMessagesIsNotLost) {
	const auto from = channel(0, {}), to = channel(1, {.stall_timeout_ms = 100});
	loop_.complete([](Channel& from, Channel& to) -> Task<void> {
		const std::vector<std::byte> bytes(100);
		for (int i = 0; i < 2; ++i) {
			EXPECT_TRUE((co_await from.send(bytes)).has_value());
			EXPECT_TRUE((co_await to.receive()).has_value()) << to.reason();
			if (i == 0) co_await from.loop().sleep_for(2'500'000'000);  // two looks of the watch
		}
	}(*from, *to));
}

TEST_P(Ends, BothMaySendMoreThanTheirBuffersHoldBeforeEitherReceives) {
	const std::unique_ptr<TcpChannel> ends[] = {channel(0, {}), channel(1, {})};
	const std::vector<std::byte> large(24 << 20, std::byte{3});
	Channel::Sent sent[2] = {std::unexpected(Trouble::lost), std::unexpected(Trouble::lost)};
	for (std::size_t i = 0; i < 2; ++i) loop_.spawn(send_and_note(*ends[i], large, sent[i]));
	for (const auto& end : ends)
		loop_.complete([](Channel& end, std::size_t size) -> Task<void> {
			const auto message = co_await end.receive();
			EXPECT_TRUE(message && message->bytes().size() == size) << end.reason();
		}(*end, large.size()));
	for (const auto& each : sent) EXPECT_TRUE(each.has_value());
}

// Writes all of `bytes` while the loop runs.
Task<void> write_all(async::Descriptor& to, std::span<const std::byte> bytes, const Channel& until_end_of) {
	while (!bytes.empty() && !until_end_of.closed()) {
		const ssize_t put = async::try_write(to, bytes);
		if (put > 0) bytes = bytes.subspan(static_cast<std::size_t>(put));
		else if (put == -EAGAIN) co_await async::NextTurn(to.loop());
		else if (put != -EINTR) co_return;
	}
}

// TLS answers each of these requests, and the answers were kept without a bound.
TEST(TcpChannel, APeerThatAsksForNewKeysAndDoesNotReadIsEnded) {
	async::Loop loop({.spin = 0});
	const testing_tools::AuthorityFiles files;
	testing_tools::Stranger peer(TlsSide::client);
	peer.speak("verbena/1");
	peer.show(*issue(files.authority, Use::client, {.name = "client", .days = 30}));
	TlsSession tls = TlsSession::server(testing_tools::made(make_server_context(files.server)));
	peer.start();
	testing_tools::converse(peer, tls);
	ASSERT_EQ(tls.state(), TlsSession::State::open) << tls.error();

	auto sockets = testing_tools::connected_sockets(loop);
	constexpr int small = 4096;  // the kernel's buffers fill soon
	setsockopt(sockets[0]->fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	setsockopt(sockets[1]->fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	const TcpOptions options{.buffer_max = 16 << 10};
	TcpChannel channel(loop, std::move(sockets[1]), std::move(tls), "peer", options);
	std::vector<std::byte> room(256 << 10);
	for (int i = 0; i < 2000 && !channel.closed(); ++i) {
		for (int j = 0; j < 1000; ++j) peer.update_keys();
		loop.complete(write_all(*sockets[0], std::span(room).first(peer.take(room)), channel));
	}
	EXPECT_TRUE(channel.closed());
	EXPECT_NE(channel.reason().find("does not read them"), std::string::npos) << channel.reason();
}

}  // namespace
}  // namespace verbena::channel
