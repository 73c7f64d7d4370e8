// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/tls_session.h"

#include <gmock/gmock.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "lib/channel/setup/fixture.h"
#include "lib/channel/setup/identity.h"
#include "lib/channel/setup/stranger.h"
#include "lib/channel/setup/tls_state.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;
using testing::HasSubstr;
using TlsState = TlsSession::State;

struct TlsEnds {
	TlsEnds(const Trust& client_trust, const Trust& server_trust)
		: client_context(made(make_client_context(client_trust))),
		  server_context(made(make_server_context(server_trust))) {}
	TlsEnds(std::shared_ptr<const TlsContext> client, std::shared_ptr<const TlsContext> server)
		: client_context(std::move(client)), server_context(std::move(server)) {}
	void connect(const std::string& host = "localhost", std::size_t chunk = 4096) {
		client.emplace(TlsSession::client(client_context, host));
		server.emplace(TlsSession::server(server_context));
		converse(*client, *server, chunk);
		// A client processes tickets, and a server's late alert, when it reads.
		std::array<std::byte, 64> room;
		EXPECT_EQ(client->read(room), 0u);
	}
	bool open() const { return client->state() == TlsState::open && server->state() == TlsState::open; }

	std::shared_ptr<const TlsContext> client_context, server_context;
	std::optional<TlsSession> client, server;
};

std::vector<std::byte> text(const std::string& words) {
	const auto bytes = std::as_bytes(std::span(words));
	return {bytes.begin(), bytes.end()};
}

template <class From, class To> std::string said(From& from, To& to, const std::string& words) {
	from.write(text(words));
	converse(from, to);
	std::array<std::byte, 100> room;
	const std::size_t got = to.read(room);
	return std::string(reinterpret_cast<const char*>(room.data()), got);
}

const AuthorityFiles& authority() {
	static const AuthorityFiles files;
	return files;
}

TEST(TlsSession, JoinsTwoProgramsOfOneUser) {
	const Folder home;
	TlsEnds ends(identity_in(home), identity_in(home));
	ends.connect();
	ASSERT_TRUE(ends.open()) << ends.client->error() << ends.server->error();
	EXPECT_EQ(said(*ends.client, *ends.server, "hello"), "hello");
	EXPECT_EQ(said(*ends.server, *ends.client, "welcome"), "welcome");
	EXPECT_EQ(ends.client->exporter_key(), ends.server->exporter_key());
}

TEST(TlsSession, JoinsTwoProgramsUnderOneAuthorityByNameAndByAddress) {
	TlsEnds ends(authority().client, authority().server);
	for (const char* host : {"localhost", "127.0.0.1", "::1"}) {
		ends.connect(host);
		EXPECT_TRUE(ends.open()) << host << ": " << ends.client->error() << ends.server->error();
	}
}

TEST(TlsSession, GoesThroughInAnyPieces) {
	const Folder home;
	for (const std::size_t chunk : {1u, 2u, 7u, 100u, 100'000u}) {
		TlsEnds ends(identity_in(home), identity_in(home));
		ends.connect("localhost", chunk);
		EXPECT_TRUE(ends.open()) << chunk;
	}
}

TEST(TlsSession, OfOneUserNeedsNoCertificatesAndHasKeysOfItsOwnEachTime) {
	const Folder home;
	TlsEnds ends(identity_in(home), identity_in(home));
	std::vector<ExporterKey> keys;
	for (int i = 0; i < 3; ++i) {
		ends.connect();
		ASSERT_TRUE(ends.open()) << ends.client->error() << ends.server->error();
		EXPECT_TRUE(ends.client->by_identity_key() && ends.server->by_identity_key());
		EXPECT_FALSE(ends.client->resumed() || ends.server->resumed());
		EXPECT_EQ(ends.client->exporter_key(), ends.server->exporter_key());
		EXPECT_TRUE(std::ranges::find(keys, ends.client->exporter_key()) == keys.end());
		keys.push_back(ends.client->exporter_key());
	}
}

TEST(TlsSession, UnderAnAuthorityNoIdentityKeyIsUsed) {
	TlsEnds ends(authority().client, authority().server);
	ends.connect();
	EXPECT_FALSE(ends.client->by_identity_key() || ends.server->by_identity_key());
}

TEST(TlsSession, ThatComesAgainIsResumedWithKeysOfItsOwn) {
	TlsEnds ends(authority().client, authority().server);
	ends.connect();
	ASSERT_TRUE(ends.open());
	EXPECT_FALSE(ends.client->resumed());
	const ExporterKey first = ends.client->exporter_key();
	for (int i = 0; i < 3; ++i) {
		ends.connect();
		ASSERT_TRUE(ends.open()) << ends.client->error() << ends.server->error();
		EXPECT_TRUE(ends.client->resumed() && ends.server->resumed());
		EXPECT_EQ(ends.client->exporter_key(), ends.server->exporter_key());
		EXPECT_NE(ends.client->exporter_key(), first);
	}
	ends.connect("127.0.0.1");
	EXPECT_FALSE(ends.client->resumed()) << "a ticket is for the host that gave it";
}

TEST(TlsSession, ATicketOfAServerThatWasStartedAnewCostsAFullHandshakeAndNoMore) {
	TlsEnds ends(authority().client, authority().server);
	ends.connect();
	ends.server_context = made(make_server_context(authority().server));
	ends.connect();
	EXPECT_TRUE(ends.open());
	EXPECT_FALSE(ends.client->resumed());
}

TEST(TlsSession, ATicketDoesNotOutliveItsServersTrust) {
	const AuthorityFiles other("another authority");
	TlsEnds ends(authority().client, authority().server);
	ends.connect();
	ends.server_context = made(make_server_context(other.server));
	ends.connect();
	EXPECT_EQ(ends.client->state(), TlsState::failed);
}

TEST(TlsSession, AClientKeepsABoundedNumberOfTickets) {
	Trust client = authority().client;
	client.any_name = true;
	TlsEnds ends(client, authority().server);
	ends.connect("first");
	for (std::size_t i = 0; i < ticket_cache_size; ++i) ends.connect("host" + std::to_string(i));
	ends.connect("host" + std::to_string(ticket_cache_size - 1));
	EXPECT_TRUE(ends.client->resumed());
	ends.connect("first");
	EXPECT_FALSE(ends.client->resumed());
}

TEST(TlsSession, AnotherUsersIdentityIsNotTaken) {
	const Folder mine, theirs;
	TlsEnds ends(identity_in(mine), identity_in(theirs));
	ends.connect();
	EXPECT_THAT(ends.client->error(),
		AllOf(HasSubstr(ends.server_context->own_fingerprint()), HasSubstr(ends.client_context->own_fingerprint()),
			HasSubstr("identity.pem"), HasSubstr("verbena certs")));
	EXPECT_THAT(ends.server->error(), HasSubstr("the client does not know this user's identity"));
}

TEST(TlsSession, AnotherAuthorityIsNotTaken) {
	const AuthorityFiles other("another authority");
	TlsEnds ends(authority().client, other.server);
	ends.connect();
	EXPECT_THAT(ends.client->error(),
		AllOf(HasSubstr("the server's certificate is not of the authority"), HasSubstr("verbena certs")));
	EXPECT_THAT(ends.server->error(), HasSubstr("the client does not accept the certificate"));
}

TEST(TlsSession, AClientOfAnotherAuthorityIsNotTaken) {
	const AuthorityFiles other("another authority");
	Trust stranger = other.client;
	stranger.ca = authority().ca;
	TlsEnds ends(stranger, authority().server);
	ends.connect();
	EXPECT_THAT(ends.server->error(), HasSubstr("the client's certificate is not of the authority"));
	EXPECT_THAT(ends.client->error(), HasSubstr("the server does not accept the certificate"));
}

TEST(TlsSession, AClientsCertificateDoesNotMakeAServer) {
	TlsEnds ends(authority().client, authority().client);
	ends.connect();
	EXPECT_THAT(ends.client->error(), HasSubstr("was not made for this use"));
}

TEST(TlsSession, AServersCertificateForAnotherHostIsNotTaken) {
	TlsEnds ends(authority().client, authority().server);
	for (const char* host : {"db.example.org", "127.0.0.2"}) {
		ends.connect(host);
		EXPECT_THAT(ends.client->error(), AllOf(HasSubstr(std::string("is not for ") + host), HasSubstr("localhost")))
			<< host;
	}
}

TEST(TlsSession, AnyNameUnderTheAuthorityIsTakenIfItWasAllowed) {
	Trust any = authority().client;
	any.any_name = true;
	TlsEnds ends(any, authority().server);
	ends.connect("db.example.org");
	EXPECT_TRUE(ends.open()) << ends.client->error();
}

TEST(TlsSession, ACertificateThatHasExpiredIsNotTaken) {
	TlsEnds ends(authority().client, authority().server);
	constexpr std::time_t days = 24 * 3600;
	X509_VERIFY_PARAM_set_time(
		SSL_CTX_get0_param(ends.client_context->state().ssl.get()), std::time(nullptr) + 60 * days);
	ends.connect();
	EXPECT_THAT(ends.client->error(), HasSubstr("the server's certificate has expired"));
	EXPECT_EQ(ends.server->state(), TlsState::failed);
}

// Our server's error about such a client.
std::string verdict_on_client(const Trust& trust, Stranger& client) {
	TlsSession server = TlsSession::server(made(make_server_context(trust)));
	client.start();
	converse(client, server);
	return server.state() == TlsState::open ? "open" : server.error();
}

TEST(TlsSession, AServerTakesTheUsersKeyAndNoOther) {
	const Folder home;
	const Credential own = made(find_or_create_identity(home / "verbena", geteuid())).credential;
	Stranger client(TlsSide::client);
	client.speak("verbena/1");
	client.show(own);
	EXPECT_EQ(verdict_on_client(identity_in(home), client), "open");
	client.show(*make_identity("verbena user identity"));
	EXPECT_THAT(verdict_on_client(identity_in(home), client), HasSubstr("the peer is not known"));
}

TEST(TlsSession, AClientWithoutACertificateIsNotTaken) {
	const Folder home;
	for (const Trust& trust : {identity_in(home), authority().server}) {
		Stranger client(TlsSide::client);
		client.speak("verbena/1");
		EXPECT_THAT(verdict_on_client(trust, client), HasSubstr("the client shows no certificate"));
	}
}

TEST(TlsSession, Tls12IsNotSpoken) {
	Stranger client(TlsSide::client);
	client.speak("verbena/1");
	SSL_CTX_set_max_proto_version(client.context(), TLS1_2_VERSION);
	EXPECT_THAT(verdict_on_client(authority().server, client), HasSubstr("TLS 1.2 or older"));

	Stranger server(TlsSide::server);
	SSL_CTX_set_max_proto_version(server.context(), TLS1_2_VERSION);
	server.show(*make_identity("server"));
	server.start();
	TlsSession ours = TlsSession::client(made(make_client_context(authority().client)), "localhost");
	converse(ours, server);
	EXPECT_THAT(ours.error(), HasSubstr("does not speak TLS 1.3"));
}

TEST(TlsSession, AnotherProtocolOverTlsIsNotSpoken) {
	Stranger client(TlsSide::client);
	EXPECT_THAT(verdict_on_client(authority().server, client), HasSubstr("not verbena/1")) << "none named";
	for (const char* name : {"http/1.1", "verbena/2", "verbena/", "verbena/11"}) {
		client.speak(name);
		EXPECT_THAT(verdict_on_client(authority().server, client), HasSubstr("not verbena/1")) << name;
	}

	Stranger server(TlsSide::server);
	const Credential shown = *issue(authority().authority, Use::server, {.name = "s", .hosts = {"localhost"}});
	server.show(shown);
	server.start();
	TlsSession ours = TlsSession::client(made(make_client_context(authority().client)), "localhost");
	converse(ours, server);
	EXPECT_THAT(ours.error(), HasSubstr("not verbena/1"));
}

TEST(TlsSession, BytesThatAreNotTlsAreReportedAsSuch) {
	for (const std::string& words :
		{std::string("GET / HTTP/1.0\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(100, '\0')}) {
		TlsSession server = TlsSession::server(made(make_server_context(authority().server)));
		server.feed(text(words));
		EXPECT_THAT(server.error(), HasSubstr("does not speak TLS")) << words;
		EXPECT_GT(server.pending(), 0u) << "an alert";
	}
}

TEST(TlsSession, AStreamThatEndsEarlyIsAFailure) {
	const Folder home;
	TlsSession silent = TlsSession::server(made(make_server_context(identity_in(home))));
	silent.feed_end();
	EXPECT_THAT(silent.error(), HasSubstr("before it sent anything"));
	TlsEnds ends(identity_in(home), identity_in(home));
	ends.client.emplace(TlsSession::client(ends.client_context, "h"));
	ends.server.emplace(TlsSession::server(ends.server_context));
	pass(*ends.client, *ends.server, 50);
	ends.server->feed_end();
	EXPECT_THAT(ends.server->error(), HasSubstr("in the middle of the TLS handshake"));
}

TEST(TlsSession, TakesNoMoreThanItCanHoldUntilItIsRead) {
	const Folder home;
	TlsEnds ends(identity_in(home), identity_in(home));
	ends.connect();
	ends.client->write(std::vector<std::byte>(100'000));
	std::size_t sent = 0, read = 0;
	std::vector<std::byte> room(200'000);
	const std::size_t all = ends.client->take(room);
	sent = ends.server->feed(std::span(room).first(all));
	EXPECT_EQ(sent, 32u << 10);
	std::array<std::byte, 1000> plain;
	while (read < 100'000) {
		const std::size_t got = ends.server->read(plain);
		read += got;
		if (got == 0) {
			ASSERT_LT(sent, all);
			sent += ends.server->feed(std::span(room).first(all).subspan(sent));
		}
	}
	EXPECT_EQ(read, 100'000u);
}

TEST(TlsSession, CloseSendsCloseNotify) {
	const Folder home;
	TlsEnds ends(identity_in(home), identity_in(home));
	ends.connect();
	ends.client->close();
	converse(*ends.client, *ends.server);
	std::array<std::byte, 10> room;
	EXPECT_EQ(ends.server->read(room), 0u);
	EXPECT_TRUE(ends.server->peer_closed());
}

TEST(TlsSession, AChangedByteInAnOpenSessionIsAFailure) {
	const Folder home;
	TlsEnds ends(identity_in(home), identity_in(home));
	ends.connect();
	ends.client->write(text("pay 10"));
	std::array<std::byte, 100> room;
	const std::size_t size = ends.client->take(room);
	room[size - 1] ^= std::byte{1};
	ends.server->feed(std::span(room).first(size));
	EXPECT_EQ(ends.server->read(room), 0u);
	EXPECT_EQ(ends.server->state(), TlsState::failed);
}

TEST(TlsContext, IsSharedByThreads) {
	const Folder home;
	const auto of_client = made(make_client_context(identity_in(home))),
			   of_server = made(make_server_context(identity_in(home)));
	std::atomic<int> open = 0;
	std::vector<std::thread> threads;
	for (int thread = 0; thread < 4; ++thread)
		threads.emplace_back([&] {
			for (int i = 0; i < 50; ++i) {
				TlsEnds ends(of_client, of_server);
				ends.connect("host" + std::to_string(i % 3));
				open += ends.open();
			}
		});
	for (std::thread& thread : threads) thread.join();
	EXPECT_EQ(open, 200);
}

TEST(TlsContext, FilesThatCannotBeUsedAreNamed) {
	const AuthorityFiles& files = authority();
	Trust trust = files.server;
	trust.ca = "/nowhere/ca.pem";
	EXPECT_THAT(make_server_context(trust).error(), HasSubstr("/nowhere/ca.pem: No such file or directory"));
	trust = files.server;
	trust.certificate = files.folder.write("garbage.pem", "hello");
	EXPECT_THAT(make_server_context(trust).error(), HasSubstr("garbage.pem"));
	trust = files.server;
	trust.key = files.client.key;
	EXPECT_THAT(make_server_context(trust).error(), HasSubstr("does not belong to the certificate"));
	trust.key = "/nowhere/key.pem";
	EXPECT_THAT(make_server_context(trust).error(), HasSubstr("/nowhere/key.pem"));
	trust.key = files.folder.write("garbage.key", "hello");
	EXPECT_THAT(make_server_context(trust).error(), AllOf(HasSubstr("garbage.key"), HasSubstr("passphrase")));
}

TEST(TlsContext, InsecureIsNoTlsAndMustHaveBeenSaid) {
	const Folder home;
	EXPECT_TRUE(std::holds_alternative<ClearText>(made(make_client_protection({.kind = TrustKind::insecure}))));
	EXPECT_FALSE(std::holds_alternative<ClearText>(made(make_server_protection(identity_in(home)))));
}

}  // namespace
}  // namespace verbena::channel
