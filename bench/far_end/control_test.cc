// SPDX-License-Identifier: Apache-2.0
#include "bench/far_end/control.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

using namespace std::chrono_literals;

struct Pair : testing::Test {
	Pair() { socketpair(AF_UNIX, SOCK_STREAM, 0, fds); }
	int fds[2];
	void write_raw(std::string_view text) {
		ASSERT_EQ(write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
	}
};

TEST_F(Pair, MessagesArriveWholeAndInOrder) {
	Control a(fds[0]), b(fds[1]);
	b.send({{"type", "one"}});
	b.send({{"type", "two"}, {"n", 2}});
	EXPECT_EQ(a.receive(1s)["type"], "one");
	EXPECT_EQ(a.try_receive().value()["n"], 2);
	EXPECT_FALSE(a.try_receive());
}

TEST_F(Pair, AHalfLineIsNotAMessage) {
	Control a(fds[0]);
	write_raw("{\"type\":");
	EXPECT_FALSE(a.try_receive());
	write_raw("\"x\"}\n");
	EXPECT_EQ(a.try_receive().value()["type"], "x");
	close(fds[1]);
}

TEST_F(Pair, TheEndOfTheOtherProcessIsNoticed) {
	Control a(fds[0]);
	close(fds[1]);
	EXPECT_THROW(a.try_receive(), PeerLost);
	EXPECT_THROW(a.send({{"type", "x"}}), PeerLost);
}

TEST_F(Pair, SilenceIsAFailureAfterThePatience) {
	Control a(fds[0]), b(fds[1]);
	EXPECT_THROW(a.receive(10ms), Failure);
}

TEST_F(Pair, AnotherProtocolIsRefused) {
	Control a(fds[0]);
	write_raw("GET / HTTP/1.1\r\n");
	EXPECT_THROW(a.try_receive(), PeerLost);
	write_raw("[1]\n");
	EXPECT_THROW(a.try_receive(), PeerLost);
	write_raw("{\"type\":7}\n");
	EXPECT_THROW(a.try_receive(), PeerLost);
	close(fds[1]);
}

// The field of the wrong type ended the server with an exception that nothing caught.
TEST_F(Pair, AHelloWhoseProtocolIsNoTextIsNone) {
	EXPECT_TRUE(is_hello({{"type", "hello"}, {"protocol", "x"}}, "x"));
	EXPECT_FALSE(is_hello({{"type", "hello"}, {"protocol", "y"}}, "x"));
	EXPECT_FALSE(is_hello({{"type", "hello"}}, "x"));
	for (const Message& wrong : {Message(7), Message(nullptr), Message::array({"x"}), Message::object()})
		EXPECT_FALSE(is_hello({{"type", "hello"}, {"protocol", wrong}}, "x"));
	close(fds[0]);
	close(fds[1]);
}

TEST_F(Pair, DeepNestingTakesNoStack) {
	Control a(fds[0]);
	constexpr std::size_t depth = 30'000;
	write_raw(R"({"type":"x","deep":)" + std::string(depth, '[') + std::string(depth, ']') + "}\n");
	EXPECT_EQ(a.receive(5s)["type"], "x");
	write_raw(std::string(60'000, '[') + "\n");
	EXPECT_THROW(a.receive(5s), PeerLost);
	close(fds[1]);
}

// Each piece is shorter than what a socket holds, since nothing reads meanwhile.
TEST_F(Pair, ALineWithoutAnEndIsRefusedAfter64KiB) {
	Control a(fds[0]);
	int pieces = 0;
	EXPECT_THROW(
		for (; pieces < 100; ++pieces) {
			write_raw(std::string(4096, '['));
			a.try_receive();
		},
		PeerLost);
	EXPECT_LE(pieces, 17);
	close(fds[1]);
}

TEST(ControlTcp, ConnectsToHostAndPort) {
	const int listener = listen_on(0);
	const std::string peer = "127.0.0.1:" + std::to_string(port_of(listener));
	Control client(connect_to(peer, 1, 1s)), server(accept_one(listener));
	close(listener);
	client.send({{"type", "hello"}});
	EXPECT_EQ(server.receive(1s)["type"], "hello");
}

TEST(ControlTcp, APortFollowsAnIpv6AddressInBrackets) {
	const auto failure = [](const std::string& peer) -> std::string {
		try {
			close(connect_to(peer, 1, 0ms));
		} catch (const Failure& failure) {
			return failure.what();
		}
		return "";
	};
	const int listener = listen_on(0);
	const std::string port = std::to_string(port_of(listener));
	EXPECT_EQ(failure("[::1]:" + port), "");
	close(listener);
	EXPECT_NE(failure("[::1]:" + port), "");
	EXPECT_NE(failure("[::1]"), "") << "nobody listens at the default port";
	EXPECT_NE(failure("[::1").find("is not HOST[:PORT]"), std::string::npos);
}

TEST(ControlTcp, AnUnreachablePeerIsNamed) {
	const int listener = listen_on(0);
	const auto port = port_of(listener);
	close(listener);
	try {
		connect_to("127.0.0.1", port, 0ms);
		FAIL();
	} catch (const Failure& failure) {
		EXPECT_NE(std::string(failure.what()).find(std::to_string(port)), std::string::npos);
	}
}

}  // namespace
}  // namespace verbena::bench
