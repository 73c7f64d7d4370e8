// SPDX-License-Identifier: Apache-2.0
// Interposed functions of libc that open files and folders.
//
// Each function first rejects the paths that are not ours; for those, it does nothing but the call,
// so it is as safe in signal handlers and children of vfork as libc's.
#include <cstring>
#include <string>

#include "nic/presence/file.h"
#include "nic/presence/libc.h"

using verbena::presence::may_concern_us;
using verbena::presence::open_file;
namespace presence = verbena::presence;
namespace libc = verbena::presence::libc;

namespace {

// The flags of open(2) for a mode of fopen(3), or -1 if the mode is none.
int flags_of(const char* mode) {
	int flags = *mode == 'r' ? O_RDONLY
		: *mode == 'w'       ? O_WRONLY | O_CREAT | O_TRUNC
		: *mode == 'a'       ? O_WRONLY | O_CREAT | O_APPEND
							 : -1;
	if (flags == -1) return -1;
	for (const char* at = mode + 1; *at && *at != ','; ++at) {
		if (*at == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
		if (*at == 'e') flags |= O_CLOEXEC;
		if (*at == 'x') flags |= O_EXCL;
	}
	return flags;
}

std::FILE* open_stream(const char* path, const char* mode) {
	const int flags = flags_of(mode);
	if (flags == -1) return errno = EINVAL, nullptr;
	const int fd = open_file(AT_FDCWD, path, flags, 0666);
	if (fd < 0) return nullptr;
	std::FILE* stream = fdopen(fd, mode);
	if (!stream) close(fd);
	return stream;
}

std::FILE* reopen_stream(const char* path, const char* mode, std::FILE* stream) {
	std::string storage;
	return libc::freopen(presence::plain_path(AT_FDCWD, path, true, storage), mode, stream);
}

}  // namespace

VERBENA_INTERPOSE(int, open, const char* path, int flags, mode_t mode) {
	if (may_concern_us(path)) [[unlikely]]
		return open_file(AT_FDCWD, path, flags, mode);
	return libc::open(path, flags, mode);
}

VERBENA_INTERPOSE(int, open64, const char* path, int flags, mode_t mode) {
	if (may_concern_us(path)) [[unlikely]]
		return open_file(AT_FDCWD, path, flags, mode);
	return libc::open64(path, flags, mode);
}

VERBENA_INTERPOSE(int, __open_2, const char* path, int flags) {
	if (may_concern_us(path)) [[unlikely]]
		return open_file(AT_FDCWD, path, flags, 0);
	return libc::__open_2(path, flags);
}

VERBENA_INTERPOSE(int, __open64_2, const char* path, int flags) {
	if (may_concern_us(path)) [[unlikely]]
		return open_file(AT_FDCWD, path, flags, 0);
	return libc::__open64_2(path, flags);
}

VERBENA_INTERPOSE(int, openat, int dirfd, const char* path, int flags, mode_t mode) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return open_file(dirfd, path, flags, mode);
	return libc::openat(dirfd, path, flags, mode);
}

VERBENA_INTERPOSE(int, openat64, int dirfd, const char* path, int flags, mode_t mode) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return open_file(dirfd, path, flags, mode);
	return libc::openat64(dirfd, path, flags, mode);
}

VERBENA_INTERPOSE(int, __openat_2, int dirfd, const char* path, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return open_file(dirfd, path, flags, 0);
	return libc::__openat_2(dirfd, path, flags);
}

VERBENA_INTERPOSE(int, __openat64_2, int dirfd, const char* path, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return open_file(dirfd, path, flags, 0);
	return libc::__openat64_2(dirfd, path, flags);
}

VERBENA_INTERPOSE(std::FILE*, fopen, const char* path, const char* mode) {
	if (may_concern_us(path)) [[unlikely]]
		return open_stream(path, mode);
	return libc::fopen(path, mode);
}

VERBENA_INTERPOSE(std::FILE*, fopen64, const char* path, const char* mode) {
	if (may_concern_us(path)) [[unlikely]]
		return open_stream(path, mode);
	return libc::fopen64(path, mode);
}

VERBENA_INTERPOSE(std::FILE*, freopen, const char* path, const char* mode, std::FILE* stream) {
	if (may_concern_us(path)) [[unlikely]]
		return reopen_stream(path, mode, stream);
	return libc::freopen(path, mode, stream);
}

VERBENA_INTERPOSE(std::FILE*, freopen64, const char* path, const char* mode, std::FILE* stream) {
	if (may_concern_us(path)) [[unlikely]]
		return reopen_stream(path, mode, stream);
	return libc::freopen64(path, mode, stream);
}

VERBENA_INTERPOSE(DIR*, opendir, const char* path) {
	if (!may_concern_us(path)) [[likely]]
		return libc::opendir(path);
	const int fd = open_file(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0) return nullptr;
	DIR* folder = fdopendir(fd);
	if (!folder) close(fd);
	return folder;
}
