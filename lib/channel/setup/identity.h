// SPDX-License-Identifier: Apache-2.0
// A user's identity: one key and its self-signed certificate, in a file that only the user can
// read, made on first use. Two programs of one user authenticate each other by it: each must show
// this very key.
//
// The file has mode 0600, in a folder of mode 0700, which identity_folder.h chooses.
//
// Threads: thread-safe, also between processes: any number may ask at once. The first creates the
//   file, whole or not at all, and all get the same identity.
// Errors: a sentence for the user, with what to do.
#pragma once

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string>

#include "lib/channel/setup/certificate.h"

namespace verbena::channel {

inline constexpr const char* identity_file = "identity.pem";  // its name in the folder

struct Identity {
	Credential credential;
	std::string path;
	bool created = false;  // this call created it
};

// Reads the identity; empty if there is none yet. Errors: the file or its folder is writable for
// others, or the file readable; it belongs to another user than `owner`; it is not an identity.
std::expected<std::optional<Identity>, std::string> find_identity(const std::string& folder, uid_t owner);

std::expected<Identity, std::string> find_or_create_identity(const std::string& folder, uid_t owner);

}  // namespace verbena::channel
