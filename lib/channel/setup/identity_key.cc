// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/identity_key.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>

#include <span>
#include <string_view>

namespace verbena::channel {
namespace {

constexpr std::size_t scalar_bytes = 32;                            // a P-256 private key
// Any suite with SHA-256 may use the key.
constexpr unsigned char tls_aes_128_gcm_sha256[] = {0x13, 0x01};

bool derive(std::span<const unsigned char> secret, std::string_view purpose, std::span<unsigned char> out) {
	const std::unique_ptr<EVP_KDF, ossl::Deleter<EVP_KDF_free>> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
	const std::unique_ptr<EVP_KDF_CTX, ossl::Deleter<EVP_KDF_CTX_free>> context(EVP_KDF_CTX_new(kdf.get()));
	if (!context) return false;
	char digest[] = "SHA256", salt[] = "verbena user identity";
	const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<unsigned char*>(secret.data()), secret.size()),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(purpose.data()), purpose.size()),
		OSSL_PARAM_construct_end()};
	return EVP_KDF_derive(context.get(), out.data(), out.size(), parameters) == 1;
}

}  // namespace

IdentityKey derive_identity_key(EVP_PKEY* private_key, SSL_CTX* context, std::string_view id_context) {
	IdentityKey result;
	BIGNUM* number = nullptr;
	if (EVP_PKEY_get_bn_param(private_key, OSSL_PKEY_PARAM_PRIV_KEY, &number) != 1) return result;
	std::array<unsigned char, scalar_bytes> scalar{};
	const bool fits = BN_bn2binpad(number, scalar.data(), scalar.size()) == static_cast<int>(scalar.size());
	BN_clear_free(number);

	std::array<unsigned char, 32> secret{};
	std::array<unsigned char, 16> label{};
	const bool derived =
		fits && derive(scalar, "tls 1.3 external psk", secret) && derive(scalar, "tls 1.3 external psk label", label);
	OPENSSL_cleanse(scalar.data(), scalar.size());
	if (!derived) return result;

	const std::unique_ptr<SSL, ossl::Deleter<SSL_free>> ssl(SSL_new(context));
	const SSL_CIPHER* const cipher = ssl ? SSL_CIPHER_find(ssl.get(), tls_aes_128_gcm_sha256) : nullptr;
	ossl::Session session(SSL_SESSION_new());
	const auto* name = reinterpret_cast<const unsigned char*>(id_context.data());
	const bool good = cipher != nullptr && session &&
		SSL_SESSION_set1_master_key(session.get(), secret.data(), secret.size()) == 1 &&
		SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
		SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1 &&
		SSL_SESSION_set1_id_context(session.get(), name, static_cast<unsigned>(id_context.size())) == 1;
	OPENSSL_cleanse(secret.data(), secret.size());
	if (!good) return result;
	constexpr char digits[] = "0123456789abcdef";
	for (const unsigned char byte : label) {
		result.label += digits[byte >> 4];
		result.label += digits[byte & 15];
	}
	result.session = std::move(session);
	return result;
}

}  // namespace verbena::channel
