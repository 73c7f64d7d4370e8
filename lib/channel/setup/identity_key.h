// What two programs of one user have in common beside a certificate: a secret of 32 bytes, derived from the identity's
// private key, by which TLS 1.3 joins them without certificates (an external pre-shared key, always with a fresh key
// exchange). Who has the one has the other, so it proves as much as the certificate does; it takes both sides a third
// of the time.
//
// For the .cc files of this floor.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "lib/channel/setup/openssl.h"

namespace verbena::channel {

struct IdentityKey {
	std::string label;  // says which key it is, and not whose: 32 characters
	ossl::Session session;  // holds the secret, as OpenSSL wants it
};

// `id_context`: that of both ends' sessions. Empty session: OpenSSL cannot.
IdentityKey derive_identity_key(EVP_PKEY* private_key, SSL_CTX* context, std::string_view id_context);

}  // namespace verbena::channel
