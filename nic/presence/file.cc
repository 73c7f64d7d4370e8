// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/file.h"

#include <sys/epoll.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "nic/presence/device_descriptor.h"
#include "nic/presence/libc.h"
#include "nic/presence/render.h"

namespace verbena::presence {
namespace {

using Where = Target::Where;

// For the errno values that a path or a flag would cause with any file.
int fail(int error) {
	errno = error;
	return -1;
}

int fail_read_only() {
	log::refuse(EACCES, "the files of a device can be read only: a program opened or made one for writing");
	return -1;
}

int fail_with_reason(const char* what) {
	const int error = errno;
	log::refuse(error, "%s: %s", what, std::strerror(error));
	return -1;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC); }

int open_ours(const Target& target, int flags, mode_t mode) {
	if ((flags & O_CREAT) && (flags & O_EXCL)) return fail(EEXIST);
	if (target.kind != Kind::folder && (flags & O_DIRECTORY)) return fail(ENOTDIR);
	switch (target.kind) {
		case Kind::device: {
			const int fd = open_device_descriptor({target.number, 0}, flags);
			return fd < 0 ? fail_with_reason("no descriptor for a file of /dev/infiniband") : fd;
		}
		case Kind::file:
		case Kind::live:
		case Kind::unreadable:
			if (flags & O_PATH) break;
			if (writes(flags)) return fail_read_only();  // as in sysfs, also for root
			if (target.kind == Kind::live) {
				const int fd = open_live(target.counter, flags);
				return fd >= 0 ? fd : fail_with_reason("the file of a counter could not be opened");
			}
			// An epoll descriptor is one that read(2) refuses with EINVAL.
			if (target.kind == Kind::unreadable) return epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
			break;
		case Kind::folder: folder_given = true; break;
		default: break;
	}
	return libc::openat(AT_FDCWD, target.path.c_str(), flags, mode);
}

constexpr mode_t device_mode = S_IFCHR | 0666;
constexpr std::uint64_t first_inode = 0x7662000;  // any number that is not 0

void make_device(struct stat& status, std::uint32_t number) {
	status.st_mode = device_mode;
	status.st_rdev = makedev(device_major, device_minor_of_first + number);
	status.st_ino = first_inode + number;
	status.st_nlink = 1;
	status.st_uid = status.st_gid = 0;
	status.st_size = 0;
}

void make_device(struct statx& status, std::uint32_t number) {
	status.stx_mode = static_cast<std::uint16_t>(device_mode);
	status.stx_rdev_major = device_major;
	status.stx_rdev_minor = device_minor_of_first + number;
	status.stx_ino = first_inode + number;
	status.stx_nlink = 1;
	status.stx_uid = status.stx_gid = 0;
	status.stx_size = 0;
}

bool follows(int flags) { return !(flags & AT_SYMLINK_NOFOLLOW); }

bool is_device(const Target& target) { return target.where == Where::ours && target.kind == Kind::device; }

}  // namespace

int open_file(int dirfd, const char* path, int flags, mode_t mode) {
	const Target target = resolve(dirfd, path, !(flags & O_NOFOLLOW));
	switch (target.where) {
		case Where::untouched: break;
		case Where::failed: return fail(target.error);
		case Where::system:
			// As in sysfs, no file can be made in a folder of ours.
			if (target.missing && (flags & O_CREAT)) return fail_read_only();
			return libc::openat(AT_FDCWD, target.path.c_str(), flags, mode);
		case Where::ours: return open_ours(target, flags, mode);
	}
	return libc::openat(dirfd, path, flags, mode);
}

void correct_untyped(int fd, struct stat& status) noexcept {
	if (const auto device = device_of_descriptor(fd)) make_device(status, device->number);
}

void correct_untyped(int fd, struct statx& status) noexcept {
	if (const auto device = device_of_descriptor(fd)) make_device(status, device->number);
}

int stat_file(int dirfd, const char* path, struct stat* status, int flags) {
	const Target target = resolve(dirfd, path, follows(flags));
	switch (target.where) {
		case Where::untouched: break;
		case Where::failed: return fail(target.error);
		case Where::system: return libc::fstatat(AT_FDCWD, target.path.c_str(), status, flags);
		case Where::ours: {
			const int result = libc::fstatat(AT_FDCWD, target.path.c_str(), status, flags & ~AT_EMPTY_PATH);
			if (result == 0 && is_device(target)) make_device(*status, target.number);
			return result;
		}
	}
	return libc::fstatat(dirfd, path, status, flags);
}

int statx_file(int dirfd, const char* path, int flags, unsigned mask, struct statx* status) {
	const Target target = resolve(dirfd, path, follows(flags));
	switch (target.where) {
		case Where::untouched: break;
		case Where::failed: return fail(target.error);
		case Where::system: return libc::statx(AT_FDCWD, target.path.c_str(), flags, mask, status);
		case Where::ours: {
			const int result = libc::statx(AT_FDCWD, target.path.c_str(), flags & ~AT_EMPTY_PATH, mask, status);
			if (result == 0 && is_device(target)) make_device(*status, target.number);
			return result;
		}
	}
	return libc::statx(dirfd, path, flags, mask, status);
}

int access_file(int dirfd, const char* path, int mode, int flags) {
	const Target target = resolve(dirfd, path, follows(flags));
	switch (target.where) {
		case Where::untouched: break;
		case Where::failed: return fail(target.error);
		case Where::system: return libc::faccessat(AT_FDCWD, target.path.c_str(), mode, flags);
		case Where::ours:
			if (is_device(target)) return mode & X_OK ? fail(EACCES) : 0;
			return libc::faccessat(AT_FDCWD, target.path.c_str(), mode, flags);
	}
	return libc::faccessat(dirfd, path, mode, flags);
}

ssize_t read_link(int dirfd, const char* path, char* text, std::size_t size) {
	const Target target = resolve(dirfd, path, false);
	switch (target.where) {
		case Where::untouched: break;
		case Where::failed: return fail(target.error);
		case Where::system: return libc::readlinkat(AT_FDCWD, target.path.c_str(), text, size);
		case Where::ours:
			if (target.kind != Kind::link) return fail(EINVAL);
			return libc::readlinkat(AT_FDCWD, target.path.c_str(), text, size);
	}
	return libc::readlinkat(dirfd, path, text, size);
}

const char* plain_path(int dirfd, const char* path, bool follow, std::string& storage) {
	Target target = resolve(dirfd, path, follow);
	if (target.where != Where::ours && target.where != Where::system) return path;
	if (target.where == Where::ours && target.kind == Kind::folder) folder_given = true;
	storage = std::move(target.path);
	return storage.c_str();
}

}  // namespace verbena::presence
