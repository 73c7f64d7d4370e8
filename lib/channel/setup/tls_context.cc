// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/tls_context.h"

#include <unistd.h>

#include <array>

#include "base/check.h"
#include "lib/channel/setup/identity.h"
#include "lib/channel/setup/private_file.h"
#include "lib/channel/setup/tls_state.h"

namespace verbena::channel {

struct ContextMaker {
	static std::shared_ptr<const TlsContext> make(std::unique_ptr<TlsContext::State> state) {
		return std::shared_ptr<const TlsContext>(new TlsContext(std::move(state)));
	}
};

namespace {

using Made = std::expected<std::shared_ptr<const TlsContext>, std::string>;
using Done = std::expected<void, std::string>;

constexpr long ticket_seconds = 3600;
constexpr long server_sessions_max = 1024;  // about 6 KiB each; one is enough for a client process
// Enough for a chain of a few certificates; OpenSSL's default is 100 KiB.
constexpr long certificates_size_max = 16 << 10;

// ALPN's encoding: one byte of length before each name (RFC 7301, 3.1).
constexpr std::array<unsigned char, 10> alpn_list{9, 'v', 'e', 'r', 'b', 'e', 'n', 'a', '/', '1'};
static_assert(alpn_list.size() == 1 + alpn_name.size());

std::string names_in(X509* certificate) {
	std::string names;
	auto* list = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
	for (int i = 0; list && i < sk_GENERAL_NAME_num(list) && names.size() < 200; ++i) {
		const ossl::Bio text(BIO_new(BIO_s_mem()));
		if (text && GENERAL_NAME_print(text.get(), sk_GENERAL_NAME_value(list, i)))
			names += (names.empty() ? "" : ", ") + ossl::text_of(text.get());
	}
	GENERAL_NAMES_free(list);
	return names;
}

// Replaces the verification of a chain: the peer must show the key that this end has. Validity
// dates do not matter.
int verify_same_key(X509_STORE_CTX* store, void* argument) {
	const auto& state = *static_cast<TlsContext::State*>(argument);
	X509* shown = X509_STORE_CTX_get0_cert(store);
	if (shown && EVP_PKEY_eq(X509_get0_pubkey(shown), state.own_public_key.get()) == 1) {
		X509_STORE_CTX_set_error(store, X509_V_OK);
		return 1;
	}
	auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
	if (shown) SessionData::of(ssl).peer_fingerprint = ossl::fingerprint_of(shown);
	X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
	return 0;
}

// OpenSSL's own verification; it also notes what it found, for the error message.
int verify_chain(X509_STORE_CTX* store, void*) {
	const int good = X509_verify_cert(store);
	if (good == 1) return 1;
	auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
	SessionData& notes = SessionData::of(ssl);
	notes.verify_error = X509_STORE_CTX_get_error(store);
	if (X509* shown = X509_STORE_CTX_get0_cert(store)) notes.peer_names = names_in(shown);
	return 0;
}

// Refuses a client without our ALPN name. (OpenSSL does not call the ALPN callback for a client
// without ALPN.)
int check_client_hello(SSL* ssl, int* alert, void*) {
	const unsigned char* offered = nullptr;
	std::size_t size = 0;
	const bool there =
		SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered, &size) == 1;
	// Two bytes of length, then names.
	for (std::size_t at = 2; there && at < size; at += 1 + std::size_t{offered[at]})
		if (std::string_view(reinterpret_cast<const char*>(offered) + at, size - at)
				.starts_with(std::string_view(reinterpret_cast<const char*>(alpn_list.data()), alpn_list.size())))
			return SSL_CLIENT_HELLO_SUCCESS;
	SessionData::of(ssl).wrong_protocol = true;
	*alert = SSL_AD_NO_APPLICATION_PROTOCOL;
	return SSL_CLIENT_HELLO_ERROR;
}

int choose_protocol(
	SSL* ssl, const unsigned char** chosen, unsigned char* size, const unsigned char*, unsigned, void*) {
	// A client that resumed by a ticket keeps using that ticket for its hour; issuing a new one
	// each time would cost both ends more than it saves.
	if (SSL_session_reused(ssl)) SSL_set_num_tickets(ssl, 0);
	*chosen = alpn_list.data() + 1;
	*size = alpn_name.size();
	return SSL_TLSEXT_ERR_OK;
}

int store_ticket(SSL* ssl, SSL_SESSION* session) {
	const SessionData& notes = SessionData::of(ssl);
	notes.context->state().tickets.store(notes.ticket_key, ossl::Session(session));
	return 1;  // takes over the reference to the session
}

// A client with a user identity offers the pre-shared key, which a server of the same user has too.
int offer_identity_key(
	SSL* ssl, const EVP_MD* digest, const unsigned char** label, std::size_t* label_size, SSL_SESSION** session) {
	const IdentityKey& key = SessionData::of(ssl).context->state().identity_key;
	*session = nullptr;
	if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
	*label = reinterpret_cast<const unsigned char*>(key.label.data());
	*label_size = key.label.size();
	*session = SSL_SESSION_dup(key.session.get());
	return 1;
}

// An unknown label is another user's: then certificates are exchanged, and the error can name the
// keys.
int find_identity_key(SSL* ssl, const unsigned char* label, std::size_t label_size, SSL_SESSION** session) {
	const IdentityKey& key = SessionData::of(ssl).context->state().identity_key;
	const bool ours = std::string_view(reinterpret_cast<const char*>(label), label_size) == key.label;
	*session = ours ? SSL_SESSION_dup(key.session.get()) : nullptr;
	return 1;
}

std::unexpected<std::string> failed(const std::string& what) {
	return std::unexpected("cannot " + what + ": " + ossl::take_error());
}

Done use_identity(TlsContext::State& state) {
	const auto identity = find_or_create_identity(state.trust.folder, geteuid());
	if (!identity) return std::unexpected(identity.error());
	const ossl::Certificate certificate = ossl::read_certificate(identity->credential.certificate_pem);
	const ossl::Key key = ossl::read_key(identity->credential.key_pem);
	if (SSL_CTX_use_certificate(state.ssl.get(), certificate.get()) != 1 ||
		SSL_CTX_use_PrivateKey(state.ssl.get(), key.get()) != 1)
		return failed("use " + identity->path);
	if (SSL_CTX_set1_sigalgs_list(state.ssl.get(), "ECDSA+SHA256") != 1) return failed("set TLS up");
	SSL_CTX_set_cert_verify_callback(state.ssl.get(), verify_same_key, &state);
	state.identity_key = derive_identity_key(key.get(), state.ssl.get(), alpn_name);
	if (!state.identity_key.session) return failed("derive a key from " + identity->path);
	// Resuming by a ticket would be no faster than this key.
	SSL_CTX_set_num_tickets(state.ssl.get(), 0);
	if (state.side == TlsSide::server) SSL_CTX_set_psk_find_session_callback(state.ssl.get(), find_identity_key);
	else SSL_CTX_set_psk_use_session_callback(state.ssl.get(), offer_identity_key);
	return {};
}

Done use_authority(TlsContext::State& state) {
	SSL_CTX* ssl = state.ssl.get();
	const Trust& trust = state.trust;
	SSL_CTX_set_default_passwd_cb(ssl, ossl::no_passphrase);
	if (SSL_CTX_load_verify_file(ssl, trust.ca.c_str()) != 1)
		return failed("read the authority's certificate " + trust.ca);
	if (SSL_CTX_use_certificate_chain_file(ssl, trust.certificate.c_str()) != 1)
		return failed("read the certificate " + trust.certificate);
	auto text = read_secret_file(trust.key);
	if (!text) return std::unexpected(text.error());
	const ossl::Key key = ossl::read_key(*text);
	OPENSSL_cleanse(text->data(), text->size());
	ERR_clear_error();
	if (!key)
		return std::unexpected("cannot read the key " + trust.key + ": it must be a PEM file without a passphrase");
	if (SSL_CTX_use_PrivateKey(ssl, key.get()) != 1) {
		ERR_clear_error();
		return std::unexpected("the key " + trust.key + " does not belong to the certificate " + trust.certificate);
	}
	SSL_CTX_set_cert_verify_callback(ssl, verify_chain, nullptr);
	return {};
}

bool set_rules(TlsContext::State& state) {
	SSL_CTX* ssl = state.ssl.get();
	const bool server = state.side == TlsSide::server;
	// Sends only the chain in the certificate's file, and adds nothing from the authority's file,
	// which the peer has.
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY | SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
	SSL_CTX_set_max_cert_list(ssl, certificates_size_max);
	SSL_CTX_set_timeout(ssl, ticket_seconds);
	SSL_CTX_set_max_send_fragment(ssl, first_fragment_max);
	if (server) {
		SSL_CTX_set_client_hello_cb(ssl, check_client_hello, nullptr);
		SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, nullptr);
		// A ticket is only the name of a session that the server keeps, up to server_sessions_max
		// of them. A self-contained ticket would hold the client's certificate, and OpenSSL would
		// decode it each time, which takes longer than the rest of a resumed handshake.
		SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
		SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_SERVER);
		SSL_CTX_sess_set_cache_size(ssl, server_sessions_max);
		SSL_CTX_set_num_tickets(ssl, 1);
	} else {
		SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(ssl, store_ticket);
	}
	// A session is resumed only under the context name that it was made under. Without a name, a
	// server that asks for certificates refuses every ticket.
	const auto* name = reinterpret_cast<const unsigned char*>(alpn_name.data());
	return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
		SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
		SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384") ==
		1 &&
		SSL_CTX_set1_groups_list(ssl, "X25519:P-256") == 1 &&
		SSL_CTX_set_session_id_context(ssl, name, static_cast<unsigned>(alpn_name.size())) == 1 &&
		SSL_CTX_set_alpn_protos(ssl, alpn_list.data(), static_cast<unsigned>(alpn_list.size())) == 0;
}

Made make(const Trust& trust, TlsSide side) {
	check(trust.kind != TrustKind::insecure, "a TLS context is not for --insecure");
	ERR_clear_error();
	auto state = std::make_unique<TlsContext::State>();
	state->ssl.reset(SSL_CTX_new(side == TlsSide::server ? TLS_server_method() : TLS_client_method()));
	state->side = side;
	state->trust = trust;
	if (!state->ssl || !set_rules(*state)) return failed("set TLS up");
	const Done loaded = trust.kind == TrustKind::identity ? use_identity(*state) : use_authority(*state);
	if (!loaded) return std::unexpected(loaded.error());
	X509* own = SSL_CTX_get0_certificate(state->ssl.get());
	state->own_public_key.reset(X509_get_pubkey(own));
	state->own_fingerprint = ossl::fingerprint_of(own);
	return ContextMaker::make(std::move(state));
}

std::expected<Protection, std::string> protection(const Trust& trust, TlsSide side) {
	if (trust.kind == TrustKind::insecure) return ClearText{};
	auto context = make(trust, side);
	if (!context) return std::unexpected(context.error());
	return std::move(*context);
}

}  // namespace

TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;
TlsSide TlsContext::side() const { return state_->side; }
const Trust& TlsContext::trust() const { return state_->trust; }
std::string TlsContext::own_fingerprint() const { return state_->own_fingerprint; }
bool TlsContext::checks_names() const { return state_->trust.kind == TrustKind::authority && !state_->trust.any_name; }

Made make_client_context(const Trust& trust) { return make(trust, TlsSide::client); }
Made make_server_context(const Trust& trust) { return make(trust, TlsSide::server); }
std::expected<Protection, std::string> make_client_protection(const Trust& trust) {
	return protection(trust, TlsSide::client);
}
std::expected<Protection, std::string> make_server_protection(const Trust& trust) {
	return protection(trust, TlsSide::server);
}

}  // namespace verbena::channel
