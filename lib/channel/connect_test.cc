// SPDX-License-Identifier: Apache-2.0
// Clients and a server's port over real sockets: set-up of channels over RDMA and TCP, and its
// failures.
#include "lib/channel/connect.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <array>

#include "lib/channel/connect_fixture.h"
#include "lib/channel/socket_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

TEST_F(Connect, OverRdmaAndOverTcpAtOnePort) {
	Server server(made(make_server_protection(files_.server)));
	const Protection mine = made(make_client_protection(files_.client));
	std::string heard[2];
	loop_.complete([](RcTransport& transport, ConnectOptions options, std::string* heard) -> Task<void> {
		ConnectOptions again = options;
		auto rc = co_await connect(transport, std::move(options));
		if (!rc) co_return ADD_FAILURE() << rc.error();
		EXPECT_EQ((*rc)->path().transport, "rc");
		co_await ask(**rc, heard[0]);
		auto tcp = co_await connect_tcp(transport.loop(), std::move(again));
		if (!tcp) co_return ADD_FAILURE() << tcp.error();
		EXPECT_EQ((*tcp)->path().transport, "tcp+tls");
		co_await ask(**tcp, heard[1]);
	}(*transport_, to(server.where(), mine), heard));
	EXPECT_EQ(heard[0], "question");
	EXPECT_EQ(heard[1], "question");
}

TEST_F(Connect, InClearWhenBothSaySo) {
	Server server(ClearText{});
	std::string heard;
	loop_.complete([](RcTransport& transport, ConnectOptions options, std::string& heard) -> Task<void> {
		auto tcp = co_await connect_tcp(transport.loop(), std::move(options));
		if (!tcp) co_return ADD_FAILURE() << tcp.error();
		EXPECT_EQ((*tcp)->path().transport, "tcp");
		co_await ask(**tcp, heard);
	}(*transport_, to(server.where(), ClearText{}), heard));
	EXPECT_EQ(heard, "question");
}

// Else a thread that is late makes a queue pair for each peer that has given up, and gets later.
TEST_F(Connect, WhatIsReadAfterTheDeadlineIsNotUsed) {
	const auto sockets = connected_sockets(loop_);
	const RcOffer offer = transport_->offer().value();
	auto client = Handshake::client(
		{.protection = ClearText{}, .started = monotonic_now()}, parameters_of(Role::client, offer.end));
	std::array<std::byte, 4096> request;
	const std::size_t size = client.take(request);
	ASSERT_EQ(send(sockets[0]->fd(), request.data(), size, 0), static_cast<ssize_t>(size));
	HandshakeOptions options{.protection = ClearText{}};
	options.started = monotonic_now() - options.patience;
	auto server = Handshake::server(options);
	loop_.complete(drive(*sockets[1], server));
	ASSERT_EQ(server.state(), Handshake::State::failed);
	EXPECT_EQ(server.error().trouble, HandshakeFailure::timed_out);
}

TEST_F(Connect, AServerThatIsLateSendsTheClientAwayAndTakesItAtItsNextAttempt) {
	Server server(ClearText{}, {.patience = 200'000'000});
	server.occupy_channels(std::chrono::milliseconds(500));
	std::string heard;
	loop_.complete([](RcTransport& transport, ConnectOptions options, std::string& heard) -> Task<void> {
		auto made = co_await connect(transport, std::move(options));
		if (!made) co_return ADD_FAILURE() << made.error();
		co_await ask(**made, heard);
	}(*transport_, to(server.where(), ClearText{}), heard));
	EXPECT_EQ(heard, "question");
	EXPECT_EQ(server.report(), "busy");
}

// ibv_query_qp has the PSNs that were exchanged, all 24 bits of them.
TEST_F(Connect, TheQueuePairHasThePsnsOfTheExchange) {
	RcOffer left = transport_->offer().value(), right = transport_->offer().value();
	const RcEnd left_end = left.end, right_end = right.end;
	auto a = transport_->connect(std::move(left), end_of(parameters_of(Role::server, right_end)), "b").value();
	auto b = transport_->connect(std::move(right), end_of(parameters_of(Role::client, left_end)), "a").value();
	ibv_qp_attr attributes{};
	ibv_qp_init_attr init{};
	ASSERT_EQ(
		ibv_query_qp(a->queue_pair(), &attributes, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS, &init), 0);
	EXPECT_EQ(attributes.sq_psn, left_end.psn);
	EXPECT_EQ(attributes.rq_psn, right_end.psn);
	// A peer needs a window to read or write. Without direct operations there are no windows, and
	// the queue pair itself does not allow READs.
	EXPECT_EQ(attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC, 0u);
}

TEST_F(Connect, EachEndLearnsFromWhichSizeOnTheOtherWantsToFetch) {
	RcOptions low = small;
	low.eager_max = 3000;
	Server server(ClearText{}, {}, low);
	loop_.complete([](RcTransport& transport, ConnectOptions options) -> Task<void> {
		auto channel = co_await connect(transport, std::move(options));
		if (!channel) co_return ADD_FAILURE() << channel.error();
		co_await ask_back(**channel, 3001);
	}(*transport_, to(server.where(), ClearText{})));
	EXPECT_GT(transport_->counters().windows_bound, 0u);
	EXPECT_GT(transport_->counters().reads, 0u);
}

TEST_F(Connect, AnotherAuthorityIsNotTrusted) {
	Server server(made(make_server_protection(files_.server)));
	const testing_tools::AuthorityFiles others("another authority");
	const std::string why = refusal(to(server.where(), made(make_client_protection(others.client))));
	EXPECT_NE(why, "it was accepted");
}

TEST_F(Connect, AClientInClearLearnsThatTheServerWantsTls) {
	Server server(made(make_server_protection(files_.server)));
	EXPECT_NE(refusal(to(server.where(), ClearText{})), "it was accepted");
}

TEST_F(Connect, ASilentServerEndsAtTheDeadline) {
	auto listener = async::listen(loop_, async::resolve("127.0.0.1", 0).value()).value();
	ConnectOptions options = to("127.0.0.1:" + std::to_string(async::local_address(*listener).port()), ClearText{});
	options.patience = 200'000'000;
	const std::string why = refusal(std::move(options));
	EXPECT_NE(why.find("not complete within 200 ms"), std::string::npos) << why;
}

TEST_F(Connect, NoProcessListens) {
	EXPECT_NE(refusal(to("127.0.0.1:1", ClearText{})).find("no server listens"), std::string::npos);
}

TEST_F(Connect, SilentAndSlowClientsDelayNoOther) {
	Server server(ClearText{}, {.handshakes_max = 4});
	async::Socket silent[20];
	std::string heard;
	loop_.complete(
		[](RcTransport& transport, ConnectOptions options, async::Socket* silent, std::string& heard) -> Task<void> {
			const auto address = async::resolve(options.host, 0).value();
			for (int i = 0; i < 20; ++i)
				silent[i] = (co_await async::connect(transport.loop(), address, never)).value();
			auto channel = co_await connect(transport, std::move(options));
			if (!channel) co_return ADD_FAILURE() << channel.error();
			co_await ask(**channel, heard);
		}(*transport_, to(server.where(), ClearText{}), silent, heard));
	EXPECT_EQ(heard, "question");
}

// The sentence is for the user, the reason for counting.
TEST_F(Connect, AFailureReportsItsKindBesidesItsSentence) {
	Server server(made(make_server_protection(files_.server)));
	const auto silent = async::listen(loop_, async::resolve("127.0.0.1", 0).value()).value();
	const async::Address taken = async::local_address(*silent);
	const auto reason = [&](const std::string& where, const async::Address* from = nullptr,
							Nanoseconds patience = 5'000'000'000) {
		ConnectTrouble trouble = ConnectTrouble::none;
		ConnectOptions options = to(where, ClearText{});
		options.patience = patience;
		options.from = from;
		options.trouble = &trouble;
		EXPECT_NE(refusal(std::move(options)), "it was accepted");
		return trouble;
	};
	EXPECT_EQ(reason("127.0.0.1:1"), ConnectTrouble::unreachable);
	EXPECT_EQ(reason("[::1"), ConnectTrouble::unreachable);
	EXPECT_EQ(reason(server.where()), ConnectTrouble::handshake);
	EXPECT_EQ(reason(async::to_string(taken), nullptr, 20'000'000), ConnectTrouble::timed_out);
	EXPECT_EQ(reason(async::to_string(taken), &taken), ConnectTrouble::no_port);
	rlimit limit{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	EXPECT_EQ(reason(async::to_string(taken)), ConnectTrouble::no_descriptor);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// 256 callers of one byte kept every other client out for 10 s and more.
TEST_F(Connect, CallersOfOneByteDelayNoOther) {
	Server server(made(make_server_protection(files_.server)), {.handshakes_max = 4});
	const Stalled callers(loop_, server.where(), 50, {std::byte{22}});
	ConnectOptions options = to(server.where(), made(make_client_protection(files_.client)));
	options.patience = 2'000'000'000;
	EXPECT_EQ(refusal(std::move(options)), "it was accepted");
	EXPECT_EQ(server.report(), "none");
}

TEST_F(Connect, HandshakesThatStallAreEvictedForOthers) {
	const Protection mine = made(make_client_protection(files_.client));
	Server server(made(make_server_protection(files_.server)), {.handshakes_max = 4, .handshake_grace = 50'000'000});
	const Stalled callers(loop_, server.where(), 4, client_hello(mine));
	ConnectOptions options = to(server.where(), mine);
	options.patience = 2'000'000'000;
	EXPECT_EQ(refusal(std::move(options)), "it was accepted");
	EXPECT_EQ(server.report(), "evicted");
	EXPECT_EQ(server.report(), "none");
	EXPECT_EQ(server.counters().evicted, 1u);
	EXPECT_EQ(server.counters().agreed, 1u);
}

TEST_F(Connect, TheOldestSilentCallerMakesRoomForAnother) {
	Server server(ClearText{}, {.accepted_max = 8});
	const Stalled callers(loop_, server.where(), 30, {});
	EXPECT_EQ(server.report(), "evicted");
	EXPECT_EQ(refusal(to(server.where(), ClearText{})), "it was accepted");
}

// 20,000 clients that arrived at once: a quarter of them was evicted while they waited in order.
TEST_F(Connect, ClientsThatArriveAtOnceAndWaitInOrderAllSucceed) {
	constexpr int count = 40;
	Server server(made(make_server_protection(files_.server)), {.handshakes_max = 2, .accepted_max = 4});
	connect_all(server.where(), count);
	for (int i = 0; i < count; ++i) EXPECT_EQ(server.report(), "none");
}

// Clients that are too slow for the server's patience are evicted, and come back.
TEST_F(Connect, ClientsThatAreEvictedTryAgainUntilAllSucceed) {
	constexpr int count = 40;
	Server server(made(make_server_protection(files_.server)),
		{.handshakes_max = 2, .handshake_grace = 100'000, .accepted_max = 8});
	connect_all(server.where(), count);
	int evicted = 0, succeeded = 0;
	while (succeeded < count) {
		const std::string outcome = server.report();
		ASSERT_TRUE(outcome == "none" || outcome == "evicted") << outcome;
		++(outcome == "none" ? succeeded : evicted);
	}
	std::printf("%d clients were sent away\n", evicted);
}

TEST(Attempts, PausesDoubleUpToAboutASecond) {
	EXPECT_EQ(mean_pause_after(1), 40'000'000u);
	EXPECT_EQ(mean_pause_after(2), 80'000'000u);
	for (const unsigned attempts : {6, 7, 100}) EXPECT_EQ(mean_pause_after(attempts), 1'280'000'000u) << attempts;
}

TEST_F(Connect, CallersThatStallInTheQueueMakeRoomForAnother) {
	const Protection mine = made(make_client_protection(files_.client));
	Server server(made(make_server_protection(files_.server)),
		{.handshakes_max = 1, .handshake_grace = 50'000'000, .accepted_max = 8});
	const Stalled callers(loop_, server.where(), 30, client_hello(mine));
	EXPECT_EQ(refusal(to(server.where(), mine)), "it was accepted");
	EXPECT_EQ(server.report(), "evicted");
}

// The last step of a set-up is posted to the channels' loop, which may have stopped by then.
TEST_F(Connect, AnUndeliveredChannelIsDestroyedBeforeItsTransport) {
	// Both loops spin, so that each of their turns ends at once.
	constexpr async::LoopOptions awake{.spin = 60'000'000'000};
	async::Loop setup(awake), io(awake);
	const auto transport = RcTransport::open(io, test_device(), small).value();
	Acceptor acceptor(
		setup, async::listen(setup, async::resolve("127.0.0.1", 0).value()).value(), *transport,
		{.protection = ClearText{}}, [](std::unique_ptr<Channel>) { ADD_FAILURE() << "nobody takes it"; },
		[](const std::string&) {});
	acceptor.start();
	ConnectOptions options = to("127.0.0.1:" + std::to_string(acceptor.port()), ClearText{});
	options.patience = 300'000'000;
	const std::jthread client([&] { EXPECT_NE(refusal(std::move(options)), "it was accepted"); });
	const auto turn = [](async::Loop& loop) {
		bool once = false;
		loop.run_until([&] { return std::exchange(once, true); });
	};
	const Nanoseconds deadline = monotonic_now() + 5'000'000'000;
	for (; transport->channels() == 0 && monotonic_now() < deadline; turn(setup)) turn(io);
	setup.run_until([&] { return acceptor.under_way() == 0 || monotonic_now() >= deadline; });
	EXPECT_EQ(transport->channels(), 1u);
	io.abandon_spawned();
	EXPECT_EQ(transport->channels(), 0u);
	setup.abandon_spawned();
}

}  // namespace
}  // namespace verbena::channel
