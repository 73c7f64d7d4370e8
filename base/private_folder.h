// SPDX-License-Identifier: Apache-2.0
// Folders that only this user can change, for small files that processes of one user share.
//
// Threads: any.
// Errors: an empty path or -1; a folder that another user could change is never used.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace verbena {

// The folders that may hold files of the NIC for the calling process's effective user, best first:
// below XDG_RUNTIME_DIR, below /run/user/UID (where that variable points in a session, and not in a
// service or a cron job), in /dev/shm, in /tmp, in the user's cache (XDG_CACHE_HOME, ~/.cache).
// None needs to exist. Any user can make the ones in /dev/shm and /tmp before this user does, but
// not the others.
std::vector<std::string> private_folders();

// Opens the folder `path`, or makes it with mode 0700. Its parent must exist; but the user's cache
// is made too if only its last folder is missing. Returns a descriptor that the caller closes, or
// -1 if the folder or its parent belongs to another user (or, for the parent, to root), if others
// may access the folder, or if a system call fails.
int open_private_folder(const std::string& path);

// A folder of private_folders() that another user has made, so that it cannot be used.
struct ForeignFolder {
	std::string path;
	uid_t owner;
};
// The first such folder of `folders`, if one exists. Folders from `used_path` on do not matter.
std::optional<ForeignFolder> foreign_folder(const std::vector<std::string>& folders, const std::string& used_path = {});

}  // namespace verbena
