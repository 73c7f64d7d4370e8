// SPDX-License-Identifier: Apache-2.0
// A pre-shared key that two programs of one user have in common: 32 bytes, derived from the private
// key of the identity. TLS 1.3 joins them by it without certificates (an external PSK, RFC 8446,
// 4.2.11), always with a new Diffie-Hellman exchange. A program that has the private key has this
// key and the reverse, so it proves as much as the certificate does; it takes both sides a third of
// the time.
//
// Only for the .cc files of this folder.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/channel/setup/openssl.h"

namespace verbena::channel {

struct IdentityKey {
	std::string label;  // identifies the key without revealing its user: 32 hex digits
	ossl::Session session;  // holds the secret in the form that OpenSSL takes
};

// `id_context` must be the session id context of both ends. Returns an empty session if OpenSSL
// fails.
IdentityKey derive_identity_key(EVP_PKEY* private_key, SSL_CTX* context, std::string_view id_context);

}  // namespace verbena::channel
