// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/tls_session.h"

#include <algorithm>

#include "base/check.h"
#include "lib/channel/setup/certificate.h"
#include "lib/channel/setup/parameters.h"
#include "lib/channel/setup/tls_state.h"

namespace verbena::channel {
namespace {

constexpr std::size_t unread_max = 32 << 10;  // two records of the largest size

// A TLS record begins with its type: 20 to 23 (RFC 8446, 5.1).
constexpr bool begins_a_record(std::byte first) { return first >= std::byte{20} && first <= std::byte{23}; }

// The fatal alert "unexpected_message" in clear, for a peer that does not speak TLS (RFC 8446, 6).
constexpr unsigned char plain_alert[] = {21, 3, 3, 0, 2, 2, SSL_AD_UNEXPECTED_MESSAGE};

}  // namespace

void TlsSession::Free::operator()(ssl_st* ssl) const {
	// OpenSSL discards the ticket of a session that was not shut down. Our connections end by a
	// reset, which is no reason to distrust the ticket.
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(ssl);
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port)
	: notes_(new SessionData{std::move(context), host, host + " " + std::to_string(port)}),
	  ssl_(SSL_new(notes_->context->state().ssl.get())) {
	BIO* in = BIO_new(BIO_s_mem());
	BIO* out = BIO_new(BIO_s_mem());
	check(ssl_ && in && out, "there is memory for a TLS session");
	SSL_set_bio(ssl_.get(), in, out);
	SSL_set_app_data(ssl_.get(), notes_.get());
}

TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

TlsSession TlsSession::client(std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port) {
	check(context->side() == TlsSide::client, "a client's session has a client's context");
	check(!host.empty() || !context->checks_names(), "a client names the host that it asks for");
	TlsSession session(std::move(context), host, port);
	SSL* ssl = session.ssl_.get();
	SSL_set_connect_state(ssl);
	const bool address = is_ip_address(host);
	bool good = host.empty() || address || SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
	if (session.notes_->context->checks_names()) {
		SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		good = good &&
			(address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str())
					 : SSL_set1_host(ssl, host.c_str())) == 1;
	}
	if (!good) {
		session.fail("'" + host + "' cannot be the name of a server");
		return session;
	}
	if (const auto ticket = session.notes_->context->state().tickets.find(session.notes_->ticket_key))
		SSL_set_session(ssl, ticket.get());
	session.advance();
	return session;
}

TlsSession TlsSession::server(std::shared_ptr<const TlsContext> context) {
	check(context->side() == TlsSide::server, "a server's session has a server's context");
	TlsSession session(std::move(context), "", 0);
	SSL_set_accept_state(session.ssl_.get());
	return session;
}

void TlsSession::fail(std::string sentence) {
	ERR_clear_error();
	if (state_ == State::failed) return;
	state_ = State::failed;
	error_ = std::move(sentence);
}

void TlsSession::advance() {
	if (state_ != State::handshaking) return;
	ERR_clear_error();
	const int result = SSL_do_handshake(ssl_.get());
	if (result == 1) {
		// A server that selects no ALPN name speaks another protocol.
		const unsigned char* protocol = nullptr;
		unsigned size = 0;
		SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
		notes_->wrong_protocol = std::string_view(reinterpret_cast<const char*>(protocol), size) != alpn_name;
		if (notes_->wrong_protocol) fail(explain_failure(*notes_));
		else state_ = State::open;
		return;
	}
	const int error = SSL_get_error(ssl_.get(), result);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return;
	peer_busy_ = ERR_GET_REASON(ERR_peek_error()) == SSL_R_TLSV1_ALERT_USER_CANCELLED;
	fail(explain_failure(*notes_));
}

std::size_t TlsSession::feed(std::span<const std::byte> received) {
	if (received.empty() || state_ == State::failed) return received.size();
	if (!begun_) {
		begun_ = true;
		if (!begins_a_record(received[0])) {
			BIO_write(SSL_get_wbio(ssl_.get()), plain_alert, sizeof plain_alert);
			peer_in_clear_ = received[0] == parameters_magic[0];
			fail(peer_in_clear_ ? "the peer speaks in clear and this side wants TLS"
								: "the peer does not speak TLS: is this the right port?");
			return received.size();
		}
	}
	BIO* in = SSL_get_rbio(ssl_.get());
	const std::size_t room = unread_max - std::min(unread_max, BIO_ctrl_pending(in));
	received = received.first(std::min(received.size(), room));
	if (!received.empty()) BIO_write(in, received.data(), static_cast<int>(received.size()));
	advance();
	return received.size();
}

void TlsSession::feed_end() {
	if (state_ == State::handshaking)
		fail(begun_
				? "the peer ended the connection in the middle of the TLS handshake"
				: "the peer ended the connection before it sent anything: does it expect a protocol other than TLS?");
	peer_closed_ = true;
}

std::size_t TlsSession::pending() const { return BIO_ctrl_pending(SSL_get_wbio(ssl_.get())); }

std::size_t TlsSession::take(std::span<std::byte> room) {
	const int got = room.empty() ? 0
								 : BIO_read(SSL_get_wbio(ssl_.get()), room.data(),
									   static_cast<int>(std::min<std::size_t>(room.size(), 1 << 20)));
	return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void TlsSession::write(std::span<const std::byte> plain) {
	check(state_ == State::open, "plain text is written to an open session");
	if (plain.empty()) return;
	ERR_clear_error();
	if (plain.size() > first_fragment_max) SSL_set_max_send_fragment(ssl_.get(), SSL3_RT_MAX_PLAIN_LENGTH);
	std::size_t written = 0;
	// The output is memory, so it writes all or fails.
	if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1 || written != plain.size())
		fail("TLS failed: " + ossl::take_error());
}

std::size_t TlsSession::read(std::span<std::byte> room) {
	if (state_ != State::open || room.empty()) return 0;
	ERR_clear_error();
	std::size_t got = 0;
	if (SSL_read_ex(ssl_.get(), room.data(), room.size(), &got) == 1) return got;
	const int error = SSL_get_error(ssl_.get(), 0);
	if (error == SSL_ERROR_ZERO_RETURN) peer_closed_ = true;
	else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) fail(explain_failure(*notes_));
	return 0;
}

bool TlsSession::in_record() const { return state_ == State::open && SSL_has_pending(ssl_.get()) == 1; }

void TlsSession::close() {
	if (state_ == State::open) SSL_shutdown(ssl_.get());
	ERR_clear_error();
}

ExporterKey TlsSession::exporter_key() const {
	check(state_ == State::open, "only an open session has keys");
	ExporterKey key;
	const int good = SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(key.data()), key.size(),
		exporter_label.data(), exporter_label.size(), nullptr, 0, 0);
	check(good == 1, "an open session exports a key");
	return key;
}

bool TlsSession::by_identity_key() const {
	return SSL_session_reused(ssl_.get()) == 1 && notes_->context->state().identity_key.session;
}
bool TlsSession::resumed() const { return SSL_session_reused(ssl_.get()) == 1 && !by_identity_key(); }

}  // namespace verbena::channel
