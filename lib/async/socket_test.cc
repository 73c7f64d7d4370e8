// SPDX-License-Identifier: Apache-2.0
#include "lib/async/socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "lib/async/selector_fixture.h"

namespace verbena::async {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Task<void> echo_once(Descriptor& listener) {
	auto socket = co_await accept(listener);
	EXPECT_TRUE(socket.has_value());
	std::array<std::byte, 64> buffer;
	const auto got = co_await read_some(**socket, buffer, never);
	EXPECT_TRUE(got.has_value());
	co_await write_all(**socket, std::span(buffer).first(*got), never);
}

class Sockets : public WithEachSelector {};
INSTANTIATE_TEST_SUITE_P(By, Sockets, each_selector, selector_name);

TEST_P(Sockets, AnEchoBetweenTwoCoroutinesOfOneLoop) {
	Loop loop(options());
	auto listener = listen(loop, resolve("127.0.0.1", 0).value()).value();
	std::string heard;
	loop.spawn(echo_once(*listener));
	loop.complete([](Loop& on, Address to, std::string& out) -> Task<void> {
		auto socket = co_await connect(on, to, never);
		EXPECT_TRUE(socket.has_value()) << socket.error();
		co_await write_all(**socket, bytes_of("hello"), never);
		std::array<std::byte, 64> buffer;
		const auto got = co_await read_some(**socket, buffer, never);
		out.assign(reinterpret_cast<const char*>(buffer.data()), got.value_or(0));
	}(loop, local_address(*listener), heard));
	EXPECT_EQ(heard, "hello");
}

TEST_P(Sockets, AClientThatHasResetItsConnectionHasAnAddress) {
	Loop loop(options());
	auto listener = listen(loop, resolve("127.0.0.1", 0).value()).value();
	Address client, accepted;
	loop.complete([](Loop& on, Descriptor& at, Address& own, Address& peer) -> Task<void> {
		auto socket = co_await connect(on, local_address(at), never);
		own = local_address(**socket);
		const linger reset{.l_onoff = 1, .l_linger = 0};
		setsockopt((*socket)->fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		socket->reset();
		const auto at_server = co_await accept(at, &peer);
		EXPECT_TRUE(at_server.has_value());
	}(loop, *listener, client, accepted));
	EXPECT_NE(client.port(), 0);
	EXPECT_EQ(to_string(accepted), to_string(client));
}

TEST_P(Sockets, ReadingFromASilentPeerEndsAtTheDeadline) {
	Loop loop(options());
	auto listener = listen(loop, resolve("127.0.0.1", 0).value()).value();
	std::string why;
	loop.complete([](Loop& on, Address to, std::string& out) -> Task<void> {
		auto socket = co_await connect(on, to, never);
		std::array<std::byte, 64> buffer;
		const auto got = co_await read_some(**socket, buffer, monotonic_now() + 2'000'000);
		if (!got) out = got.error();
	}(loop, local_address(*listener), why));
	EXPECT_EQ(why, "the peer sent nothing in time");
}

TEST_P(Sockets, ConnectingToAPortWithoutAServerSaysSo) {
	Loop loop(options());
	Address where;
	{
		auto listener = listen(loop, resolve("127.0.0.1", 0).value()).value();
		where = local_address(*listener);
	}
	std::string why;
	loop.complete([](Loop& on, Address to, std::string& out) -> Task<void> {
		const auto socket = co_await connect(on, to, never);
		if (!socket) out = socket.error();
	}(loop, where, why));
	EXPECT_NE(why.find("no server listens at 127.0.0.1:"), std::string::npos) << why;
}

// A pending request of io_uring would keep a closed socket open.
TEST_P(Sockets, AClosedSocketIsClosedForThePeerAtOnce) {
	Loop loop(options());
	auto listener = listen(loop, resolve("127.0.0.1", 0).value()).value();
	bool ended = false;
	loop.complete([](Loop& on, Descriptor& accepting, bool& out) -> Task<void> {
		auto mine = co_await connect(on, local_address(accepting), never);
		auto theirs = co_await accept(accepting);
		theirs->reset();
		std::byte nothing{};
		out = recv((*mine)->fd(), &nothing, 1, 0) == 0;
	}(loop, *listener, ended));
	EXPECT_TRUE(ended);
}

TEST(Address, HostsPortsAndBothFamilies) {
	EXPECT_EQ(to_string(resolve("127.0.0.1", 9).value()), "127.0.0.1:9");
	EXPECT_EQ(to_string(resolve("127.0.0.1:77", 9).value()), "127.0.0.1:77");
	EXPECT_EQ(to_string(resolve("::1", 9).value()), "[::1]:9");
	EXPECT_EQ(to_string(resolve("[::1]:77", 9).value()), "[::1]:77");
	EXPECT_FALSE(resolve("127.0.0.1:", 9).has_value());
	EXPECT_FALSE(resolve("127.0.0.1:70000", 9).has_value());
	EXPECT_FALSE(resolve("[::1", 9).has_value());
	EXPECT_FALSE(resolve("[::1]junk", 9).has_value());
	EXPECT_FALSE(resolve("[::1]:", 9).has_value());
}

}  // namespace
}  // namespace verbena::async
