// SPDX-License-Identifier: Apache-2.0
// For tests: a peer in TLS that is not ours.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lib/channel/setup/certificate.h"
#include "lib/channel/setup/openssl.h"
#include "lib/channel/setup/tls_context.h"

namespace verbena::channel::testing_tools {

// OpenSSL with its defaults, which trusts every certificate.
class Stranger {
public:
	explicit Stranger(TlsSide side) : context_(SSL_CTX_new(TLS_method())), side_(side) {
		SSL_CTX_set_verify(context_.get(), SSL_VERIFY_NONE, nullptr);
	}
	void show(const Credential& credential) {
		SSL_CTX_use_certificate(context_.get(), ossl::read_certificate(credential.certificate_pem).get());
		SSL_CTX_use_PrivateKey(context_.get(), ossl::read_key(credential.key_pem).get());
	}
	void speak(const std::string& protocol) {
		const std::string list = static_cast<char>(protocol.size()) + protocol;
		SSL_CTX_set_alpn_protos(
			context_.get(), reinterpret_cast<const unsigned char*>(list.data()), static_cast<unsigned>(list.size()));
	}
	SSL_CTX* context() { return context_.get(); }
	void start() {
		ssl_.reset(SSL_new(context_.get()));
		SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
		if (side_ == TlsSide::client) SSL_set_connect_state(ssl_.get());
		else SSL_set_accept_state(ssl_.get());
		advance();
	}
	void feed(std::span<const std::byte> received) {
		BIO_write(SSL_get_rbio(ssl_.get()), received.data(), static_cast<int>(received.size()));
		advance();
	}
	// Asks the other end for new keys; it answers each request (RFC 8446, 4.6.3).
	void update_keys() {
		SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_REQUESTED);
		advance();
	}
	std::size_t take(std::span<std::byte> room) {
		const int got = BIO_read(SSL_get_wbio(ssl_.get()), room.data(), static_cast<int>(room.size()));
		return got > 0 ? static_cast<std::size_t>(got) : 0;
	}

private:
	void advance() {
		SSL_do_handshake(ssl_.get());
		ERR_clear_error();
	}
	std::unique_ptr<SSL_CTX, ossl::Deleter<SSL_CTX_free>> context_;
	std::unique_ptr<SSL, ossl::Deleter<SSL_free>> ssl_;
	TlsSide side_;
};

}  // namespace verbena::channel::testing_tools
