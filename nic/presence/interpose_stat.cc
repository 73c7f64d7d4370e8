// SPDX-License-Identifier: Apache-2.0
// Interposed functions of libc that ask about files: stat, access and readlink in their many forms.
//
// As in interpose_open.cc, a path that is not ours goes to libc unchanged. stat64 is stat on the
// 64-bit machines that we run on.
#include "nic/presence/file.h"
#include "nic/presence/libc.h"

using verbena::presence::access_file;
using verbena::presence::correct;
using verbena::presence::may_concern_us;
using verbena::presence::read_link;
using verbena::presence::stat_file;
namespace presence = verbena::presence;
namespace libc = verbena::presence::libc;

static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(long) == 8);

namespace {

struct stat* plain(struct stat64* status) { return reinterpret_cast<struct stat*>(status); }

int corrected(int result, int fd, struct stat* status) {
	if (result == 0) correct(fd, *status);
	return result;
}

}  // namespace

VERBENA_INTERPOSE(int, stat, const char* path, struct stat* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, status, 0);
	return libc::stat(path, status);
}

VERBENA_INTERPOSE(int, stat64, const char* path, struct stat64* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, plain(status), 0);
	return libc::stat64(path, status);
}

VERBENA_INTERPOSE(int, lstat, const char* path, struct stat* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
	return libc::lstat(path, status);
}

VERBENA_INTERPOSE(int, lstat64, const char* path, struct stat64* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, plain(status), AT_SYMLINK_NOFOLLOW);
	return libc::lstat64(path, status);
}

VERBENA_INTERPOSE(int, fstat, int fd, struct stat* status) { return corrected(libc::fstat(fd, status), fd, status); }

VERBENA_INTERPOSE(int, fstat64, int fd, struct stat64* status) {
	return corrected(libc::fstat64(fd, status), fd, plain(status));
}

VERBENA_INTERPOSE(int, fstatat, int dirfd, const char* path, struct stat* status, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return stat_file(dirfd, path, status, flags);
	return corrected(libc::fstatat(dirfd, path, status, flags), path && !*path ? dirfd : -1, status);
}

VERBENA_INTERPOSE(int, fstatat64, int dirfd, const char* path, struct stat64* status, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return stat_file(dirfd, path, plain(status), flags);
	return corrected(libc::fstatat64(dirfd, path, status, flags), path && !*path ? dirfd : -1, plain(status));
}

// The forms that programs built before glibc 2.33 call; `version` is the layout of struct stat, of
// which there is one only.
VERBENA_INTERPOSE(int, __xstat, int version, const char* path, struct stat* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, status, 0);
	return libc::__xstat(version, path, status);
}

VERBENA_INTERPOSE(int, __xstat64, int version, const char* path, struct stat64* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, plain(status), 0);
	return libc::__xstat64(version, path, status);
}

VERBENA_INTERPOSE(int, __lxstat, int version, const char* path, struct stat* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
	return libc::__lxstat(version, path, status);
}

VERBENA_INTERPOSE(int, __lxstat64, int version, const char* path, struct stat64* status) {
	if (may_concern_us(path)) [[unlikely]]
		return stat_file(AT_FDCWD, path, plain(status), AT_SYMLINK_NOFOLLOW);
	return libc::__lxstat64(version, path, status);
}

VERBENA_INTERPOSE(int, __fxstat, int version, int fd, struct stat* status) {
	return corrected(libc::__fxstat(version, fd, status), fd, status);
}

VERBENA_INTERPOSE(int, __fxstat64, int version, int fd, struct stat64* status) {
	return corrected(libc::__fxstat64(version, fd, status), fd, plain(status));
}

VERBENA_INTERPOSE(int, __fxstatat, int version, int dirfd, const char* path, struct stat* status, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return stat_file(dirfd, path, status, flags);
	return corrected(libc::__fxstatat(version, dirfd, path, status, flags), path && !*path ? dirfd : -1, status);
}

VERBENA_INTERPOSE(int, __fxstatat64, int version, int dirfd, const char* path, struct stat64* status, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return stat_file(dirfd, path, plain(status), flags);
	return corrected(
		libc::__fxstatat64(version, dirfd, path, status, flags), path && !*path ? dirfd : -1, plain(status));
}

VERBENA_INTERPOSE(int, statx, int dirfd, const char* path, int flags, unsigned mask, struct statx* status) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return presence::statx_file(dirfd, path, flags, mask, status);
	const int result = libc::statx(dirfd, path, flags, mask, status);
	if (result == 0 && !(path && *path)) presence::correct(dirfd, *status);
	return result;
}

VERBENA_INTERPOSE(int, access, const char* path, int mode) {
	if (may_concern_us(path)) [[unlikely]]
		return access_file(AT_FDCWD, path, mode, 0);
	return libc::access(path, mode);
}

VERBENA_INTERPOSE(int, euidaccess, const char* path, int mode) {
	if (may_concern_us(path)) [[unlikely]]
		return access_file(AT_FDCWD, path, mode, AT_EACCESS);
	return libc::euidaccess(path, mode);
}

VERBENA_INTERPOSE(int, eaccess, const char* path, int mode) {
	if (may_concern_us(path)) [[unlikely]]
		return access_file(AT_FDCWD, path, mode, AT_EACCESS);
	return libc::eaccess(path, mode);
}

VERBENA_INTERPOSE(int, faccessat, int dirfd, const char* path, int mode, int flags) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return access_file(dirfd, path, mode, flags);
	return libc::faccessat(dirfd, path, mode, flags);
}

VERBENA_INTERPOSE(ssize_t, readlink, const char* path, char* text, std::size_t size) {
	if (may_concern_us(path)) [[unlikely]]
		return read_link(AT_FDCWD, path, text, size);
	return libc::readlink(path, text, size);
}

VERBENA_INTERPOSE(ssize_t, readlinkat, int dirfd, const char* path, char* text, std::size_t size) {
	if (may_concern_us(dirfd, path)) [[unlikely]]
		return read_link(dirfd, path, text, size);
	return libc::readlinkat(dirfd, path, text, size);
}
