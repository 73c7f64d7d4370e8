// Folders that only this user can change, for small files that processes of one user share.
//
// Threads: any.
// Errors: an empty path or -1; a folder that another user could change is never used.
#pragma once

#include <string>
#include <vector>

namespace verbena {

// The folders that may hold files of the NIC for the calling process's effective user, best first:
// below XDG_RUNTIME_DIR, in /dev/shm, in /tmp. None needs to exist.
std::vector<std::string> private_folders();

// Opens the folder `path`, or makes it with mode 0700. Its parent must exist. Returns a descriptor
// that the caller closes, or -1 if the folder or its parent belongs to another user (or, for the
// parent, to root), if others may access the folder, or if a system call fails.
int open_private_folder(const std::string& path);

}  // namespace verbena
