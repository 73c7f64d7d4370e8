// SPDX-License-Identifier: Apache-2.0
// Chooses the folder of a user's identity (identity.h):
//
//     $XDG_CONFIG_HOME/verbena, or $HOME/.config/verbena
//     where that cannot be written: the first of private_folders() (base/private_folder.h)
//
// A private folder of /run, /dev/shm or /tmp is lost at the latest when the host restarts; then the
// next program makes another identity.
//
// Threads: thread-safe, also between processes.
// Errors: a sentence for the user, with what to do.
// Invariants: an XDG_CONFIG_HOME that can be written is always used. Otherwise a folder that has an
//   identity comes before any that could have one. So processes of one user choose the same folder,
//   also with different environments, if the one that made the identity and the one that looks for
//   it both see its folder. A private folder of another user, or one that others may enter, is
//   never chosen.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace verbena::channel {

struct IdentityPlaces {
	// Values of the environment. Empty and relative values count as unset.
	std::string xdg_config_home, home;
	// The best first. If there are none, only the two above are considered.
	std::vector<std::string> private_folders;
};

// Makes no folder but a private one. Without private folders it looks at no file.
std::expected<std::string, std::string> choose_identity_folder(const IdentityPlaces& places);

}  // namespace verbena::channel
