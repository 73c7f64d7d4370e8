// SPDX-License-Identifier: Apache-2.0
// The calls that open files and ask about them, as the process sees its devices: the common half of
// the functions that we interpose.
//
// Threads: any.
// Errors: -1 with errno set, as the system call of the name.
#pragma once

#include <sys/stat.h>

#include "nic/presence/presence.h"

namespace verbena::presence {

int open_file(int dirfd, const char* path, int flags, mode_t mode);

// fstatat(2). `status` is a stat or, which is the same on 64-bit machines, a stat64.
int stat_file(int dirfd, const char* path, struct stat* status, int flags);
int statx_file(int dirfd, const char* path, int flags, unsigned mask, struct statx* status);
// Correct what fstat(2) and statx(2) said, if `fd` is one of our device descriptors.
void correct_untyped(int fd, struct stat& status) noexcept;
void correct_untyped(int fd, struct statx& status) noexcept;
// Only files without a name of their own have no type, and our descriptors are among them.
inline void correct(int fd, struct stat& status) noexcept {
	if (!(status.st_mode & S_IFMT)) [[unlikely]]
		correct_untyped(fd, status);
}
inline void correct(int fd, struct statx& status) noexcept {
	if (!(status.stx_mode & S_IFMT)) [[unlikely]]
		correct_untyped(fd, status);
}

// faccessat(2) with flags.
int access_file(int dirfd, const char* path, int mode, int flags);
ssize_t read_link(int dirfd, const char* path, char* text, std::size_t size);

// Returns the path that a call which knows nothing of us may use in place of `path`: `path` itself,
// or a place in the snapshot kept in `storage`.
const char* plain_path(int dirfd, const char* path, bool follow, std::string& storage);

}  // namespace verbena::presence
