// Making certificates: a user's own identity, and a small certificate authority with what it issues. ECDSA over P-256,
// SHA-256.
//
// Values and pure functions; PEM text in and out. Nothing here touches a file.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::channel {

struct Credential {
	std::string certificate_pem;
	std::string key_pem;  // PKCS #8, without passphrase
};

enum class Use : std::uint8_t { server, client };

struct CertificateOptions {
	std::string name;                // common name, 1 to 64 printable bytes
	std::vector<std::string> hosts;  // DNS names ("*.example.org" too) and IP addresses; a server needs at least one
	unsigned days = 365;             // from an hour ago on (clocks differ)
};

// Signed by itself, and without an end: what counts is that both ends have the key, not a date.
std::expected<Credential, std::string> make_identity(const std::string& name);

// May sign end certificates and nothing else.
std::expected<Credential, std::string> make_authority(const std::string& name, unsigned days);

// For one use only: a client's certificate does not make a server.
std::expected<Credential, std::string> issue(const Credential& authority, Use use, const CertificateOptions& options);

// "SHA256:" and the digest of the public key in base64: the same for a renewed certificate of the same key.
std::expected<std::string, std::string> fingerprint(std::string_view certificate_pem);

bool is_ip_address(const std::string& host);

// A name that may stand in a certificate, or an address; the error names it.
std::expected<void, std::string> check_host(const std::string& host);

}  // namespace verbena::channel
