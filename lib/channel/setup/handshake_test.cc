// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/handshake.h"

#include <gmock/gmock.h>

#include "lib/channel/setup/fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;
using testing::HasSubstr;
using State = Handshake::State;
using Bytes = std::vector<std::byte>;

// The trust of both ends. All tests share one folder, because making keys is slow.
const Folder& home() {
	static const Folder folder;
	return folder;
}
const std::shared_ptr<const TlsContext>& user(TlsSide side) {
	static const auto client = made(make_client_context(identity_in(home()))),
					  server = made(make_server_context(identity_in(home())));
	return side == TlsSide::client ? client : server;
}
Protection tls(TlsSide side) { return user(side); }

Handshake client(Protection protection, const Parameters& ours = parameters_of(Role::client)) {
	return Handshake::client(
		{.protection = std::move(protection), .host = "localhost", .started = 5 * second, .patience = 3 * second},
		ours);
}
Handshake server(Protection protection) {
	return Handshake::server({.protection = std::move(protection), .started = 5 * second, .patience = 3 * second});
}

struct HandshakeEnds {
	HandshakeEnds(Protection of_client, Protection of_server)
		: client(channel::client(std::move(of_client))), server(channel::server(std::move(of_server))) {}
	explicit HandshakeEnds(bool secure)
		: HandshakeEnds(secure ? tls(TlsSide::client) : ClearText{}, secure ? tls(TlsSide::server) : ClearText{}) {}
	// Passes bytes until both are silent; a server that is asked answers.
	void run(std::size_t chunk = 4096) {
		converse(client, server, chunk);
		if (server.state() == State::asked) server.answer(parameters_of(Role::server));
		converse(client, server, chunk);
	}
	Handshake client, server;
};

std::string text_of(const Handshake& end) { return end.state() == State::failed ? end.error().text : "did not fail"; }
HandshakeFailure trouble_of(const Handshake& end) {
	return end.state() == State::failed ? end.error().trouble : HandshakeFailure{255};
}

Bytes take_all(Handshake& end) {
	Bytes bytes(end.pending());
	EXPECT_EQ(end.take(bytes), bytes.size());
	return bytes;
}

class EitherWay : public testing::TestWithParam<bool> {};  // in TLS or in clear
INSTANTIATE_TEST_SUITE_P(Handshake, EitherWay, testing::Values(true, false),
	[](const auto& way) { return way.param ? "InTls" : "ClearText"; });

TEST_P(EitherWay, BothEndsHoldTheSame) {
	HandshakeEnds ends(GetParam());
	ends.run();
	ASSERT_EQ(ends.client.state(), State::agreed) << text_of(ends.client);
	ASSERT_EQ(ends.server.state(), State::agreed) << text_of(ends.server);
	const Agreed &client = ends.client.agreed(), &server = ends.server.agreed();
	EXPECT_EQ(client.ours, server.theirs);
	EXPECT_EQ(client.theirs, server.ours);
	EXPECT_EQ(client.negotiated.mtu, 1024u);
	EXPECT_TRUE(check_proof(server.proof, make_proof(client.proof)));
	EXPECT_TRUE(check_proof(client.proof, make_proof(server.proof)));
	EXPECT_EQ(ends.client.poll_timeout(), never);
}

TEST_P(EitherWay, InAnyPieces) {
	for (const std::size_t chunk : {1u, 3u, 50u, 1000u}) {
		HandshakeEnds ends(GetParam());
		ends.run(chunk);
		EXPECT_EQ(ends.client.state(), State::agreed) << chunk;
		EXPECT_EQ(ends.server.state(), State::agreed) << chunk;
	}
}

TEST_P(EitherWay, AServerSeesWhatIsAskedBeforeItAnswers) {
	const Parameters asked = parameters_of(Role::client, 0xabcde);
	Handshake one = client(GetParam() ? tls(TlsSide::client) : ClearText{}, asked),
			  other = server(GetParam() ? tls(TlsSide::server) : ClearText{});
	converse(one, other);
	ASSERT_EQ(other.state(), State::asked);
	EXPECT_EQ(other.theirs(), asked);
	EXPECT_EQ(one.state(), State::waiting);
}

TEST_P(EitherWay, ARefusalReachesTheClientWithItsReason) {
	HandshakeEnds ends(GetParam());
	converse(ends.client, ends.server);
	ends.server.refuse(RefusalCode::full, "this server has its 100 clients: try another, or raise --max-clients");
	converse(ends.client, ends.server);
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::refused);
	EXPECT_EQ(ends.client.error().refusal, RefusalCode::full);
	EXPECT_THAT(text_of(ends.client), HasSubstr("the server refuses: this server has its 100 clients"));
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::refused);
}

TEST_P(EitherWay, AClientThatIsSentAwayBeforeItsHandshakeMayTryAgain) {
	HandshakeEnds ends(GetParam());
	ends.client.feed(busy_answer(GetParam()));
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::refused);
	EXPECT_EQ(ends.client.error().refusal, RefusalCode::busy);
	EXPECT_TRUE(ends.client.error().busy);
	EXPECT_THAT(text_of(ends.client), HasSubstr("the server refuses: it has too many set-ups under way"));
}

TEST_P(EitherWay, TruncatedAtEveryByteNothingIsAgreedAndTheEndIsNoticed) {
	// The number of bytes that the client sends in a set-up that succeeds.
	const auto run_to = [&](std::size_t limit) {
		HandshakeEnds ends(GetParam());
		std::size_t sent = 0;
		const auto client_to_server = [&] {
			Bytes room(std::min<std::size_t>(limit - sent, 4096));
			const std::size_t size = ends.client.take(room);
			sent += size;
			ends.server.feed(std::span(room).first(size));
			return size != 0;
		};
		while (client_to_server() || pass(ends.server, ends.client)) {}
		return std::pair{std::move(ends), sent};
	};
	const std::size_t all = run_to(1 << 20).second;
	ASSERT_GT(all, 100u);
	for (std::size_t limit = 0; limit < all; ++limit) {
		HandshakeEnds ends = run_to(limit).first;
		// The length of signatures varies, and a ticket shortens a handshake, so this one may have
		// been whole.
		if (ends.client.pending() == 0 && ends.server.state() == State::asked) continue;
		ASSERT_EQ(ends.server.state(), State::waiting) << limit << " of " << all;
		ends.server.feed_end();
		ASSERT_EQ(trouble_of(ends.server), HandshakeFailure::closed) << limit;
	}
}

TEST_P(EitherWay, APeerThatStallsIsGivenUpAtTheDeadlineFromItsOwnStart) {
	for (const std::size_t sent : {0u, 1u, 60u}) {
		Handshake one = client(GetParam() ? tls(TlsSide::client) : ClearText{}),
				  other = server(GetParam() ? tls(TlsSide::server) : ClearText{});
		if (sent) pass(one, other, sent);
		EXPECT_EQ(other.poll_timeout(), 8 * second);
		other.handle_timeout(8 * second - 1);
		EXPECT_EQ(other.state(), State::waiting);
		other.handle_timeout(8 * second);
		EXPECT_EQ(trouble_of(other), HandshakeFailure::timed_out);
		EXPECT_THAT(text_of(other), HasSubstr("was not complete within 3 s"));
		EXPECT_EQ(other.poll_timeout(), never);
		one.handle_timeout(9 * second);
		EXPECT_EQ(trouble_of(one), HandshakeFailure::timed_out);
		EXPECT_THAT(text_of(one), HasSubstr(GetParam() ? "the TLS handshake" : "the server's answer"));
	}
}

TEST_P(EitherWay, AServerThatTakesItsTimeIsBoundByTheDeadlineToo) {
	HandshakeEnds ends(GetParam());
	converse(ends.client, ends.server);
	ASSERT_EQ(ends.server.state(), State::asked);
	ends.server.handle_timeout(8 * second);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::timed_out);
}

TEST_P(EitherWay, GarbageIsRefused) {
	for (const std::string& words :
		{std::string("GET / HTTP/1.0\r\n\r\n"), std::string(5000, '\0'), std::string("VBCH\1\1\xff\xff garbage")}) {
		Handshake end = server(GetParam() ? tls(TlsSide::server) : ClearText{});
		end.feed(std::as_bytes(std::span(words)));
		EXPECT_EQ(end.state(), State::failed) << words;
	}
}

TEST_P(EitherWay, BytesAfterBothAgreedAreIgnored) {
	HandshakeEnds ends(GetParam());
	ends.run();
	const Bytes noise(100'000, std::byte{7});
	ends.client.feed(noise);
	ends.server.feed(noise);
	ends.server.feed_end();
	EXPECT_EQ(ends.client.state(), State::agreed);
	EXPECT_EQ(ends.server.state(), State::agreed);
}

TEST(Handshake, MoreThanOneMessageIsTooMuch) {
	Handshake one = client(ClearText{}), other = server(ClearText{});
	Bytes twice = take_all(one);
	twice.push_back(std::byte{'V'});
	other.feed(twice);
	EXPECT_EQ(trouble_of(other), HandshakeFailure::oversized);
}

TEST(Handshake, AMessageThatSaysItIsTooLongIsNotWaitedFor) {
	Handshake end = server(ClearText{});
	end.feed(Bytes{std::byte{'V'}, std::byte{'B'}, std::byte{'C'}, std::byte{'H'}, std::byte{1}, std::byte{1},
		std::byte{2}, std::byte{1}});
	EXPECT_EQ(trouble_of(end), HandshakeFailure::malformed);
	EXPECT_THAT(text_of(end), HasSubstr("length 513"));
}

TEST(Handshake, EndlessTlsIsCutOff) {
	// One handshake record after another, each a part of a message that never ends.
	Handshake end = server(tls(TlsSide::server));
	Bytes record(5 + 16, std::byte{0});
	record[0] = std::byte{22}, record[1] = std::byte{3}, record[2] = std::byte{3}, record[4] = std::byte{16};
	record[5] = std::byte{1}, record[6] = std::byte{0}, record[7] = std::byte{0xff}, record[8] = std::byte{0xff};
	for (std::size_t fed = 0; end.state() == State::waiting && fed <= Handshake::input_max; fed += record.size())
		end.feed(record);
	EXPECT_EQ(end.state(), State::failed);
	EXPECT_TRUE(trouble_of(end) == HandshakeFailure::oversized || trouble_of(end) == HandshakeFailure::not_trusted)
		<< text_of(end);
}

TEST(Handshake, AServerReportsInvalidParametersToTheClient) {
	Handshake one = client(ClearText{}), other = server(ClearText{});
	Bytes message = take_all(one);
	message[20] = std::byte{0xff};  // the first PSN, which has 24 bits, or the field that is there
	message[19] = message[21] = std::byte{0xff};
	other.feed(message);
	EXPECT_EQ(trouble_of(other), HandshakeFailure::malformed);
	converse(one, other);
	EXPECT_EQ(trouble_of(one), HandshakeFailure::refused);
	EXPECT_EQ(one.error().refusal, RefusalCode::malformed);
	EXPECT_THAT(text_of(one), HasSubstr("the client's parameters are not accepted"));
}

TEST(Handshake, TwoClientsOrAnEchoAgreeOnNothing) {
	Handshake one = client(ClearText{}), other = client(ClearText{});
	pass(one, other);
	EXPECT_EQ(trouble_of(other), HandshakeFailure::malformed);
	EXPECT_THAT(text_of(other), HasSubstr("role"));
	// The client's own message with the other role: its own nonce comes back.
	Handshake echoed = client(ClearText{});
	Bytes message = take_all(echoed);
	message[10] = std::byte{2};
	echoed.feed(message);
	EXPECT_EQ(trouble_of(echoed), HandshakeFailure::malformed);
	EXPECT_THAT(text_of(echoed), HasSubstr("nonce"));
}

TEST(Handshake, AClientInClearAtATlsServerHearsWhatToDo) {
	HandshakeEnds ends(ClearText{}, tls(TlsSide::server));
	ends.run();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::in_clear);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::in_clear);
	EXPECT_THAT(text_of(ends.client), HasSubstr("start both with --insecure, or neither"));
	EXPECT_THAT(text_of(ends.server), HasSubstr("start both with --insecure, or neither"));
}

TEST(Handshake, ATlsClientAtAServerInClearHearsWhatToDo) {
	HandshakeEnds ends(tls(TlsSide::client), ClearText{});
	ends.run();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::in_clear);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::in_clear);
	EXPECT_THAT(text_of(ends.client), HasSubstr("start both with --insecure, or neither"));
	EXPECT_THAT(text_of(ends.server), HasSubstr("start both with --insecure, or neither"));
}

TEST(Handshake, AnotherUsersIdentityIsNotTrusted) {
	const Folder other;
	HandshakeEnds ends(tls(TlsSide::client), made(make_server_context(identity_in(other))));
	ends.run();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::not_trusted);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::not_trusted);
	EXPECT_THAT(text_of(ends.client), HasSubstr("give both ends the same"));
}

TEST(Handshake, AClientThatIsNotTrustedLearnsItThoughItsTlsIsOpen) {
	// The client trusts the server's authority; the server trusts another one. In TLS 1.3 the
	// client finishes first.
	const AuthorityFiles ours, theirs("another authority");
	Trust server = ours.server;
	server.ca = theirs.ca;
	HandshakeEnds ends(made(make_client_context(ours.client)), made(make_server_context(server)));
	ends.run();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::not_trusted);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::not_trusted);
	EXPECT_THAT(text_of(ends.client), HasSubstr("the server does not accept the certificate"));
}

TEST(Handshake, AnotherAuthorityIsNotTrusted) {
	const AuthorityFiles ours, theirs("another authority");
	HandshakeEnds ends(made(make_client_context(ours.client)), made(make_server_context(theirs.server)));
	ends.run();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::not_trusted);
	EXPECT_EQ(trouble_of(ends.server), HandshakeFailure::not_trusted);
}

// An attacker between client and server speaks to each of them as the other, with a certificate of
// his own.
TEST(Handshake, AManInTheMiddleWithACertificateOfHisOwnGetsNothing) {
	const Folder his;
	Handshake to_him = server(made(make_server_context(identity_in(his))));
	Handshake victim = client(tls(TlsSide::client));
	converse(victim, to_him);
	EXPECT_EQ(trouble_of(victim), HandshakeFailure::not_trusted);
	EXPECT_NE(to_him.state(), State::asked) << "the client's parameters stay secret";

	Handshake from_him = client(made(make_client_context(identity_in(his))));
	Handshake real = server(tls(TlsSide::server));
	converse(from_him, real);
	EXPECT_EQ(trouble_of(real), HandshakeFailure::not_trusted);
}

// An attacker that both trust (he has a certificate of the authority, and the client accepts any
// name) still cannot stay in the middle: the two sessions have different keys, and the proofs pass
// him on the queue pair.
TEST(Handshake, AManInTheMiddleThatBothTrustIsFoundByTheProof) {
	Handshake victim = client(tls(TlsSide::client)), to_him = server(tls(TlsSide::server));
	converse(victim, to_him);
	ASSERT_EQ(to_him.state(), State::asked) << to_him.error().text;
	Handshake from_him = client(tls(TlsSide::client), to_him.theirs()), real = server(tls(TlsSide::server));
	converse(from_him, real);
	real.answer(parameters_of(Role::server));
	converse(from_him, real);
	ASSERT_EQ(from_him.state(), State::agreed);
	to_him.answer(from_him.agreed().theirs);
	converse(victim, to_him);
	ASSERT_EQ(victim.state(), State::agreed);
	ASSERT_EQ(real.state(), State::agreed);
	EXPECT_EQ(victim.agreed().theirs, real.agreed().ours) << "he passed all on as it was";
	EXPECT_EQ(check_proof(real.agreed().proof, make_proof(victim.agreed().proof)).error(), ProofError::forged);
	EXPECT_EQ(check_proof(victim.agreed().proof, make_proof(real.agreed().proof)).error(), ProofError::forged);
}

// In clear every host on the path can read and write. But an attacker who only rewrites the set-up,
// and not the messages of the queue pair, is detected.
TEST(Handshake, AManInTheMiddleThatRewritesTheParametersIsFoundByTheProof) {
	Handshake one = client(ClearText{}), other = server(ClearText{});
	Parameters changed = *decode(take_all(one));
	changed.first_psn ^= 1;
	other.feed(encode(changed));
	ASSERT_EQ(other.state(), State::asked);
	other.answer(parameters_of(Role::server));
	pass(other, one);
	ASSERT_EQ(one.state(), State::agreed);
	EXPECT_EQ(check_proof(other.agreed().proof, make_proof(one.agreed().proof)).error(), ProofError::forged);
	EXPECT_EQ(check_proof(one.agreed().proof, make_proof(other.agreed().proof)).error(), ProofError::forged);
}

TEST(Handshake, ReplayedBytesOfAnotherSetUpOpenNothing) {
	// Replays everything that a client sent in a TLS set-up to the same server.
	Bytes recorded;
	Handshake one = client(tls(TlsSide::client)), other = server(tls(TlsSide::server));
	for (bool more = true; more;) {
		Bytes bytes = take_all(one);
		recorded.insert(recorded.end(), bytes.begin(), bytes.end());
		other.feed(bytes);
		more = pass(other, one) || !bytes.empty();
	}
	ASSERT_EQ(other.state(), State::asked);
	Handshake again = server(tls(TlsSide::server));
	again.feed(recorded);
	EXPECT_EQ(trouble_of(again), HandshakeFailure::not_trusted);
}

TEST(Handshake, AProofOfAnotherConnectionIsAReplay) {
	HandshakeEnds before(true), now(true);
	before.run();
	now.run();
	EXPECT_EQ(
		check_proof(now.server.agreed().proof, make_proof(before.client.agreed().proof)).error(), ProofError::replayed);
}

// A server in TLS has no keys to say why it ends a handshake, so the end itself says that it is
// busy.
TEST(Handshake, AClientWhoseServerEndsWithinTlsMayTryAgain) {
	HandshakeEnds ends(true);
	ends.server.feed(take_all(ends.client));
	Bytes answer = take_all(ends.server);
	ends.client.feed(std::span(answer).first(answer.size() / 2));
	ends.client.feed_end();
	EXPECT_EQ(trouble_of(ends.client), HandshakeFailure::closed);
	EXPECT_TRUE(ends.client.error().busy);

	HandshakeEnds silent(true);
	silent.client.feed_end();
	EXPECT_FALSE(silent.client.error().busy) << "another kind of server may have ended it";
}

TEST(Handshake, AnErrorOfAnotherKindIsNoReasonToTryAgain) {
	HandshakeEnds mixed(tls(TlsSide::client), ClearText{});
	mixed.run();
	EXPECT_EQ(trouble_of(mixed.client), HandshakeFailure::in_clear);
	EXPECT_FALSE(mixed.client.error().busy);
	HandshakeEnds full(true);
	converse(full.client, full.server);
	full.server.refuse(RefusalCode::full, "this server has its 100 clients");
	converse(full.client, full.server);
	EXPECT_FALSE(full.client.error().busy);
}

TEST(Handshake, ResumesByTicket) {
	const AuthorityFiles authority;
	const auto of_client = made(make_client_context(authority.client)),
			   of_server = made(make_server_context(authority.server));
	for (const bool resumed : {false, true, true}) {
		HandshakeEnds ends(of_client, of_server);
		ends.run();
		ASSERT_EQ(ends.server.state(), State::agreed);
		EXPECT_EQ(ends.server.agreed().resumed, resumed);
		EXPECT_EQ(ends.client.agreed().resumed, resumed);
		EXPECT_TRUE(check_proof(ends.server.agreed().proof, make_proof(ends.client.agreed().proof)));
	}
}

}  // namespace
}  // namespace verbena::channel
