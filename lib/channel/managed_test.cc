// SPDX-License-Identifier: Apache-2.0
// Channels that rdma_cm connects: the requests that are accepted, and the limits of a peer that has
// not proved itself yet.
#include "lib/channel/managed.h"

#include "lib/channel/connect_fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

constexpr Nanoseconds little_patience = 100'000'000;

class Managed : public Connect {
protected:
	Managed() : events_(ManagedEvents::open(loop_).value()) {}

	// The client's result: the message that the server echoed, or why it is not connected.
	std::string attempt(ConnectOptions options) {
		std::string heard;
		loop_.complete(connect_and_ask(*events_, *transport_, std::move(options), heard));
		return heard;
	}
	static Task<void> connect_and_ask(
		ManagedEvents& events, RcTransport& transport, ConnectOptions options, std::string& heard) {
		const auto channel = co_await connect_managed(events, transport, std::move(options));
		if (channel) co_await ask(**channel, heard);
		else heard = channel.error();
	}

	Protection server_of_the_user() { return made(make_server_protection(identity_in(files_.folder))); }
	Protection client_of_the_user() { return made(make_client_protection(identity_in(files_.folder))); }

	std::unique_ptr<ManagedEvents> events_;
};

// A client that has its queue pair connected and then does not follow the protocol.
struct Rude {
	Rude(ManagedEvents& events, RcTransport& transport)
		: id(transport.loop()), events_(events), transport_(transport) {}

	// The last event of rdma_cm.
	Task<void> call(std::string where, std::vector<std::byte> terms = {}) {
		const auto address = async::resolve(where, 0).value();
		const Nanoseconds deadline = monotonic_now() + 5'000'000'000;
		id.own(
			lib::begin_resolve(events_.channel(), {.storage = address.storage}, std::chrono::seconds(5), nullptr, &id)
				.value());
		EXPECT_EQ((co_await id.next(deadline))->type, RDMA_CM_EVENT_ADDR_RESOLVED);
		EXPECT_TRUE(lib::begin_route(id.get(), std::chrono::seconds(5)).has_value());
		EXPECT_EQ((co_await id.next(deadline))->type, RDMA_CM_EVENT_ROUTE_RESOLVED);
		auto offer = transport_.offer().value();
		if (terms.empty()) terms = encode_terms(channel::parameters_of(Role::client, offer.end));
		EXPECT_TRUE(lib::begin_connect(id.get(), terms, {.number = offer.end.qpn, .shared_receives = true, .reads = 4})
				.has_value());
		answer = co_await id.next(deadline);
		if (!answer || answer->type != RDMA_CM_EVENT_CONNECT_RESPONSE) co_return;
		const auto path = lib::path_of(id.get()).value();
		const RcEnd peer = managed_end(path, decode_terms(answer->private_data, Role::server).value());
		offer.end.psn = path.local_psn;
		channel = transport_.connect(std::move(offer), peer, "the server").value();
		EXPECT_TRUE(lib::establish(id.get()).has_value());
	}

	ManagedId id;
	std::optional<lib::ConnectionEvent> answer;
	std::unique_ptr<RcChannel> channel;

private:
	ManagedEvents& events_;
	RcTransport& transport_;
};

Task<void> send_too_much(Channel& channel) {
	const std::vector<std::byte> large(unproven_message_max + 1);
	co_await channel.send(large);
}

void expect_no_channel(Server& server) {
	const Nanoseconds deadline = monotonic_now() + 5'000'000'000;
	while (server.channels() > 0 && monotonic_now() < deadline) std::this_thread::yield();
	EXPECT_EQ(server.channels(), 0u);
}

// Runs the fixture's loop for the client until the server reports this outcome and has no channel.
void expect_end(const char* cause, Server& server, async::Loop& loop) {
	std::thread waiting([&] {
		EXPECT_EQ(server.report(), cause);
		expect_no_channel(server);
		loop.stop();
	});
	loop.run();
	waiting.join();
}

TEST_F(Managed, TwoProgramsOfOneUserConnect) {
	Server server(server_of_the_user());
	EXPECT_EQ(attempt(to(server.where(), client_of_the_user())), "question");
	EXPECT_EQ(server.report(), "none");
}

TEST_F(Managed, InClearWhenBothSaySo) {
	Server server(ClearText{});
	EXPECT_EQ(attempt(to(server.where(), ClearText{})), "question");
}

TEST_F(Managed, CertificatesCountAsOverTcp) {
	Server server(made(make_server_protection(files_.server)));
	EXPECT_EQ(attempt(to(server.where(), made(make_client_protection(files_.client)))), "question");
	EXPECT_EQ(server.report(), "none");
	const AuthorityFiles others("another authority");
	const std::string why = attempt(to(server.where(), made(make_client_protection(others.client))));
	EXPECT_NE(why, "question");
	EXPECT_EQ(server.report(), "not_trusted") << why;
	expect_no_channel(server);
}

TEST_F(Managed, EachEndLearnsFromWhichSizeOnTheOtherWantsToFetch) {
	RcOptions low = small;
	low.eager_max = 3000;
	Server server(ClearText{}, {}, low);
	loop_.complete([](ManagedEvents& events, RcTransport& transport, ConnectOptions options) -> Task<void> {
		const auto channel = co_await connect_managed(events, transport, std::move(options));
		if (!channel) co_return ADD_FAILURE() << channel.error();
		co_await ask_back(**channel, 3001);
	}(*events_, *transport_, to(server.where(), ClearText{})));
	EXPECT_GT(transport_->counters().windows_bound, 0u);
	EXPECT_GT(transport_->counters().reads, 0u);
}

TEST_F(Managed, AnEndInClearAndAnEndInTlsDoNotConnect) {
	Server server(server_of_the_user());
	EXPECT_NE(attempt(to(server.where(), ClearText{})).find("--insecure"), std::string::npos);
	EXPECT_EQ(server.report(), "in_clear");
}

TEST_F(Managed, NoProcessListens) {
	std::string where;
	{
		Server server(ClearText{});
		where = server.where();
	}
	EXPECT_NE(attempt(to(where, ClearText{})).find("no server listens"), std::string::npos);
}

TEST_F(Managed, ARequestWithoutValidTermsIsRejectedWithTheReason) {
	Server server(ClearText{});
	Rude client(*events_, *transport_);
	loop_.complete(client.call(server.where(), std::vector<std::byte>(40, std::byte{0x5a})));
	ASSERT_TRUE(client.answer.has_value());
	EXPECT_EQ(client.answer->type, RDMA_CM_EVENT_REJECTED);
	EXPECT_NE(lib::trouble_of(*client.answer, "it").text.find("no valid terms of a channel"), std::string::npos);
	EXPECT_EQ(server.report(), "malformed");
}

// The reject is that of a listener whose queue of requests is full: no private data.
TEST_F(Managed, AClientThatIsRejectedWithoutAReasonRetries) {
	int requests = 0;
	const auto address = [&](std::uint16_t port) {
		return lib::address_of(transport_->device().choice.gid, port).value();
	};
	// So that no other process has this port.
	const auto tcp = async::listen(loop_, async::resolve("127.0.0.1", 0).value()).value();
	const std::uint16_t port = async::local_address(*tcp).port();
	const auto listener = ManagedEvents::open(loop_).value();
	const auto listening = listener->listen(address(port), 8, [&](lib::ConnectionId id, const std::vector<std::byte>&) {
		lib::reject(id.get(), ++requests == 3 ? "this time with a word" : "");
	});
	ASSERT_TRUE(listening.has_value()) << listening.error();
	const std::string where = lib::format_address(address(port).get());
	EXPECT_NE(attempt(to(where, ClearText{})).find("this time with a word"), std::string::npos);
	EXPECT_EQ(requests, 3);
}

TEST_F(Managed, AFullServerSaysSo) {
	RcOptions one = small;
	one.connections_max = 1;
	Server server(ClearText{}, {}, one);
	loop_.complete([](ManagedEvents& events, RcTransport& transport, ConnectOptions options) -> Task<void> {
		const auto first = co_await connect_managed(events, transport, options);
		if (!first) co_return ADD_FAILURE() << first.error();
		const auto second = co_await connect_managed(events, transport, options);
		if (second) co_return ADD_FAILURE() << "it was accepted";
		EXPECT_NE(second.error().find("the server is full"), std::string::npos) << second.error();
	}(*events_, *transport_, to(server.where(), ClearText{})));
	EXPECT_EQ(server.report(), "none");
	EXPECT_EQ(server.report(), "full");
}

TEST_F(Managed, AServerThatIsShuttingDownSaysSoToThoseThatWait) {
	const Protection mine = client_of_the_user();
	Server server(server_of_the_user(), {.handshakes_max = 1, .handshake_grace = 60'000'000'000});
	const Stalled caller(loop_, server.where(), 1, client_hello(mine));
	std::jthread stopping([&] {
		// The caller, its handshake, and the client.
		const Nanoseconds deadline = monotonic_now() + 5'000'000'000;
		while (server.clients() < 3 && monotonic_now() < deadline) std::this_thread::yield();
		server.stop_accepting();
	});
	const std::string why = attempt(to(server.where(), mine));
	EXPECT_NE(why.find("this server is shutting down"), std::string::npos) << why;
}

TEST_F(Managed, AClientThatSaysNothingLosesItsQueuePairAtTheDeadline) {
	Server server(ClearText{}, {.patience = little_patience});
	Rude client(*events_, *transport_);
	loop_.complete(client.call(server.where()));
	EXPECT_TRUE(client.channel != nullptr);
	expect_end("timed_out", server, loop_);
}

// The connection ends at once, and not at the deadline.
TEST_F(Managed, AClientThatDisconnectsBeforeItsProofEndsAtOnce) {
	Server server(ClearText{}, {.patience = 60'000'000'000});
	Rude client(*events_, *transport_);
	loop_.complete(client.call(server.where()));
	client.id.end();
	client.channel.reset();
	expect_end("closed", server, loop_);
}

TEST_F(Managed, AClientThatHasNotProvedItselfSendsNoLargeMessage) {
	Server server(ClearText{}, {.patience = 60'000'000'000});
	Rude client(*events_, *transport_);
	loop_.complete([](Rude& client, std::string where) -> Task<void> {
		co_await client.call(std::move(where));
		const async::Job sending(client.channel->loop(), send_too_much(*client.channel));
		// The server rejects the connection if it ends before our answer to its reply has come.
		const rdma_cm_event_type end = (co_await client.id.next(never))->type;
		EXPECT_TRUE(end == RDMA_CM_EVENT_DISCONNECTED || end == RDMA_CM_EVENT_REJECTED) << end;
	}(client, server.where()));
	EXPECT_EQ(server.report(), "closed");
	expect_no_channel(server);
}

TEST_F(Managed, ManyClientsAtOnceTakeTurns) {
	Server server(ClearText{}, {.handshakes_max = 4});
	std::vector<std::string> heard(40);
	for (std::string& each : heard)
		loop_.spawn(connect_and_ask(*events_, *transport_, to(server.where(), ClearText{}), each));
	loop_.run_until([&] { return loop_.spawned() == 0; });
	for (const std::string& each : heard) EXPECT_EQ(each, "question");
}

TEST(SameEnd, AnyChangedFieldIsNoticed) {
	const RcEnd end{.qpn = 0x4711, .psn = 7, .gid = {.raw = {1}}, .unit_bytes = 1088, .credits = 2, .reads = 4};
	const Parameters said = channel::parameters_of(Role::server, end);
	EXPECT_TRUE(same_end(end, said));
	const auto differs = [&](auto change) {
		RcEnd other = end;
		change(other);
		return !same_end(other, said);
	};
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.qpn; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.psn; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.gid.raw[15]; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.unit_bytes; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.credits; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.receive_depth; }));
	EXPECT_TRUE(differs([](RcEnd& other) { ++other.eager_max; }));
	EXPECT_TRUE(differs([](RcEnd& other) { --other.reads; }));
}

}  // namespace
}  // namespace verbena::channel
