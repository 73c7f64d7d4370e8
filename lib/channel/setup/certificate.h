// SPDX-License-Identifier: Apache-2.0
// Makes certificates: a user's identity, and a small certificate authority with the certificates
// that it issues. Keys are ECDSA over P-256, digests SHA-256.
//
// Threads: pure functions; PEM text in and out, no files.
// Errors: a sentence for the user.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::channel {

struct Credential {
	std::string certificate_pem;
	std::string key_pem;  // PKCS #8, without a passphrase
};

enum class Use : std::uint8_t { server, client };

struct CertificateOptions {
	std::string name;                // common name, 1 to 64 printable ASCII characters
	// DNS names (also "*.example.org") and IP addresses; a server needs at least one
	std::vector<std::string> hosts;
	unsigned days = 365;             // valid from an hour ago, because clocks differ, for this long
};

// A self-signed certificate that never expires: what matters is that both ends have its key, not a
// date.
std::expected<Credential, std::string> make_identity(const std::string& name);

// An authority that may sign end certificates and nothing else.
std::expected<Credential, std::string> make_authority(const std::string& name, unsigned days);

// Issues a certificate for one use only: a client's certificate does not serve as a server's.
std::expected<Credential, std::string> issue(const Credential& authority, Use use, const CertificateOptions& options);

// "SHA256:" and the digest of the public key in base64. A renewed certificate of the same key has
// the same.
std::expected<std::string, std::string> fingerprint(std::string_view certificate_pem);

bool is_ip_address(const std::string& host);

// Errors: `host` is neither a host name nor an address that a certificate may contain.
std::expected<void, std::string> check_host(const std::string& host);

}  // namespace verbena::channel
