// SPDX-License-Identifier: Apache-2.0
// The peers that a program trusts, from its options and its environment (docs/security.md):
//
//     --insecure           every peer: no authentication, no encryption; only on request
//     --ca --cert --key    peers with a certificate of this authority
//     (none of these)      programs of the same user (identity.h)
//
// VERBENA_CA, VERBENA_CERT and VERBENA_KEY stand in for options that are not given.
//
// Threads: thread-safe; a program fills TrustOptions from its command line and takes the
//   environment with trust_environment().
// Errors: one sentence that says which options contradict each other or are missing.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "lib/channel/setup/identity_folder.h"

namespace verbena::channel {

struct TrustOptions {
	std::string ca, certificate, key;  // paths
	bool insecure = false;
	// A client with --ca accepts any server of the authority, whatever its name.
	bool any_name = false;
};

struct TrustEnvironment {
	std::string ca, certificate, key;  // VERBENA_CA, VERBENA_CERT, VERBENA_KEY
	IdentityPlaces identity;
};

TrustEnvironment trust_environment();

enum class TrustKind : std::uint8_t { identity, authority, insecure };

struct Trust {
	TrustKind kind = TrustKind::identity;
	std::string ca, certificate, key;  // authority: paths
	bool any_name = false;
	std::string folder;  // identity: its folder; the user's configuration folder may not exist yet

	// For the log, such as "the authority of ca.pem".
	std::string description() const;
};

// Chooses by the table above.
std::expected<Trust, std::string> choose_trust(const TrustOptions& options, const TrustEnvironment& environment);

}  // namespace verbena::channel
