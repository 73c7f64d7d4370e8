// Whom a program trusts, from its options and its environment (docs/security.md):
//
//     --insecure                       nobody is authenticated, nothing is encrypted; only if it was said
//     --ca --cert --key                whoever shows a certificate of this authority; VERBENA_CA, VERBENA_CERT,
//     VERBENA_KEY stand for them otherwise                        programs of the same user (identity.h)
//
// Pure functions over values; tools fill TrustOptions from their command line and take the environment of the process.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace verbena::channel {

struct TrustOptions {
	std::string ca, certificate, key;  // files
	bool insecure = false;
	bool any_name = false;             // a client with --ca: any server of the authority will do, whatever its name
};

struct TrustEnvironment {
	std::string ca, certificate, key;  // VERBENA_CA, VERBENA_CERT, VERBENA_KEY
	std::string xdg_config_home, home;
};

TrustEnvironment trust_environment();

enum class TrustKind : std::uint8_t { identity, authority, insecure };

struct Trust {
	TrustKind kind = TrustKind::identity;
	std::string ca, certificate, key;  // authority: files
	bool any_name = false;
	std::string folder;                // identity: where it is or will be

	// For the log: "this user's identity (...)", "the authority ca.pem", "nobody is authenticated (--insecure)".
	std::string description() const;
};

// The error says which options contradict each other or are missing.
std::expected<Trust, std::string> choose_trust(const TrustOptions& options, const TrustEnvironment& environment);

}  // namespace verbena::channel
