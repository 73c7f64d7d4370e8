// A user's identity: one key and its own certificate, in one file that only the user can read, made on first use. Two
// programs of one user know each other by it: each must show this very key.
//
//     $XDG_CONFIG_HOME/verbena/identity.pem, or ~/.config/verbena/identity.pem       mode 0600, in a folder of mode
//     0700
//
// Any number of processes may ask at once, from any thread: whoever is first makes the file, whole or not at all, and
// all get the same.
#pragma once

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string>

#include "lib/channel/setup/certificate.h"

namespace verbena::channel {

struct Identity {
	Credential credential;
	std::string path;
	bool created = false;  // by this call
};

// The folder for a user whose environment says this; empty or relative values count as unset, as the XDG specification
// says.
std::expected<std::string, std::string> identity_folder(const std::string& xdg_config_home, const std::string& home);

// What is there; nothing if there is none yet. Refused, with what to do: a file or folder that others may write, or a
// file that they may read; an owner other than `owner`; a file that is no identity.
std::expected<std::optional<Identity>, std::string> find_identity(const std::string& folder, uid_t owner);

std::expected<Identity, std::string> find_or_create_identity(const std::string& folder, uid_t owner);

}  // namespace verbena::channel
