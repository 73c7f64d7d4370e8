// SPDX-License-Identifier: Apache-2.0
// Interposed functions of libc that work on names: canonical paths, the working folder, lists of
// folders, and extended attributes (which `ls -l` asks for).
//
// As in interpose_open.cc, a path that is not ours goes to libc unchanged. The program never sees
// where a snapshot lies.
#include <climits>
#include <cstdlib>
#include <cstring>

#include "nic/presence/file.h"
#include "nic/presence/libc.h"

using verbena::presence::may_be_ours;
using verbena::presence::may_concern_us;
using verbena::presence::plain_path;
using verbena::presence::read_link;
using verbena::presence::Target;
using verbena::presence::working_folder_given;
namespace presence = verbena::presence;
namespace libc = verbena::presence::libc;

namespace {

// Copies `text` to `buffer`, which holds PATH_MAX bytes, or to new memory if there is no buffer.
char* give(const std::string& text, char* buffer) {
	if (text.size() >= PATH_MAX) return errno = ENAMETOOLONG, nullptr;
	if (!buffer) return strdup(text.c_str());
	return static_cast<char*>(std::memcpy(buffer, text.c_str(), text.size() + 1));
}

char* canonical_path(const char* path, char* buffer) {
	const Target target = presence::resolve(AT_FDCWD, path, true);
	switch (target.where) {
		case Target::Where::untouched: break;
		case Target::Where::failed: return errno = target.error, nullptr;
		case Target::Where::system: return libc::realpath(target.path.c_str(), buffer);
		case Target::Where::ours: return give(target.canonical, buffer);
	}
	return libc::realpath(path, buffer);
}

// Replaces the path of a folder in a snapshot by that which the program may see. It is shorter.
char* visible_folder(char* path) {
	if (!path) return nullptr;
	const std::string visible = presence::visible_path(path);
	if (!visible.empty()) std::memcpy(path, visible.c_str(), visible.size() + 1);
	return path;
}

// glob(3) with the functions by which it reads folders replaced by ours.
template <class Glob, class Result>
int glob_ours(Glob& real, const char* pattern, int flags, int (*failed)(const char*, int), Result* result) {
	result->gl_opendir = [](const char* path) -> void* { return ::opendir(path); };
	result->gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
	if constexpr (std::is_same_v<Result, glob_t>) {
		result->gl_readdir = [](void* folder) { return ::readdir(static_cast<DIR*>(folder)); };
		result->gl_stat = [](const char* path, struct stat* status) { return ::stat(path, status); };
		result->gl_lstat = [](const char* path, struct stat* status) { return ::lstat(path, status); };
	} else {
		result->gl_readdir = [](void* folder) { return ::readdir64(static_cast<DIR*>(folder)); };
		result->gl_stat = [](const char* path, struct stat64* status) { return ::stat64(path, status); };
		result->gl_lstat = [](const char* path, struct stat64* status) { return ::lstat64(path, status); };
	}
	return real(pattern, flags | GLOB_ALTDIRFUNC, failed, result);
}

}  // namespace

VERBENA_INTERPOSE(char*, realpath, const char* path, char* buffer) {
	if (may_concern_us(path)) [[unlikely]]
		return canonical_path(path, buffer);
	return libc::realpath(path, buffer);
}

VERBENA_INTERPOSE(char*, __realpath_chk, const char* path, char* buffer, std::size_t size) {
	// A buffer that is too short ends the program, in libc.
	if (may_concern_us(path) && size >= PATH_MAX) [[unlikely]]
		return canonical_path(path, buffer);
	return libc::__realpath_chk(path, buffer, size);
}

VERBENA_INTERPOSE(char*, canonicalize_file_name, const char* path) {
	if (may_concern_us(path)) [[unlikely]]
		return canonical_path(path, nullptr);
	return libc::canonicalize_file_name(path);
}

VERBENA_INTERPOSE(ssize_t, __readlink_chk, const char* path, char* text, std::size_t size, std::size_t room) {
	if (may_concern_us(path) && size <= room) [[unlikely]]
		return read_link(AT_FDCWD, path, text, size);
	return libc::__readlink_chk(path, text, size, room);
}

VERBENA_INTERPOSE(
	ssize_t, __readlinkat_chk, int dirfd, const char* path, char* text, std::size_t size, std::size_t room) {
	if (may_concern_us(dirfd, path) && size <= room) [[unlikely]]
		return read_link(dirfd, path, text, size);
	return libc::__readlinkat_chk(dirfd, path, text, size, room);
}

VERBENA_INTERPOSE(int, chdir, const char* path) {
	std::string storage;
	const bool ours = may_concern_us(path);
	const int result = libc::chdir(ours ? plain_path(AT_FDCWD, path, true, storage) : path);
	if (ours || working_folder_given) [[unlikely]]
		presence::note_working_folder();
	return result;
}

VERBENA_INTERPOSE(int, fchdir, int fd) {
	const int result = libc::fchdir(fd);
	if (presence::folder_given || working_folder_given) [[unlikely]]
		presence::note_working_folder();
	return result;
}

VERBENA_INTERPOSE(char*, getcwd, char* buffer, std::size_t size) {
	char* path = libc::getcwd(buffer, size);
	return working_folder_given ? visible_folder(path) : path;
}

VERBENA_INTERPOSE(int, scandir, const char* path, dirent*** names, int (*chosen)(const dirent*),
	int (*compare)(const dirent**, const dirent**)) {
	if (!may_concern_us(path)) [[likely]]
		return libc::scandir(path, names, chosen, compare);
	std::string storage;
	return libc::scandir(plain_path(AT_FDCWD, path, true, storage), names, chosen, compare);
}

VERBENA_INTERPOSE(int, scandir64, const char* path, dirent64*** names, int (*chosen)(const dirent64*),
	int (*compare)(const dirent64**, const dirent64**)) {
	if (!may_concern_us(path)) [[likely]]
		return libc::scandir64(path, names, chosen, compare);
	std::string storage;
	return libc::scandir64(plain_path(AT_FDCWD, path, true, storage), names, chosen, compare);
}

VERBENA_INTERPOSE(int, glob, const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
	if (may_be_ours(pattern) && !(flags & GLOB_ALTDIRFUNC)) [[unlikely]]
		return glob_ours(libc::glob, pattern, flags, failed, result);
	return libc::glob(pattern, flags, failed, result);
}

VERBENA_INTERPOSE(int, glob64, const char* pattern, int flags, int (*failed)(const char*, int), glob64_t* result) {
	if (may_be_ours(pattern) && !(flags & GLOB_ALTDIRFUNC)) [[unlikely]]
		return glob_ours(libc::glob64, pattern, flags, failed, result);
	return libc::glob64(pattern, flags, failed, result);
}

VERBENA_INTERPOSE(ssize_t, getxattr, const char* path, const char* name, void* value, std::size_t size) {
	if (!may_concern_us(path)) [[likely]]
		return libc::getxattr(path, name, value, size);
	std::string storage;
	return libc::getxattr(plain_path(AT_FDCWD, path, true, storage), name, value, size);
}

VERBENA_INTERPOSE(ssize_t, lgetxattr, const char* path, const char* name, void* value, std::size_t size) {
	if (!may_concern_us(path)) [[likely]]
		return libc::lgetxattr(path, name, value, size);
	std::string storage;
	return libc::lgetxattr(plain_path(AT_FDCWD, path, false, storage), name, value, size);
}

VERBENA_INTERPOSE(ssize_t, listxattr, const char* path, char* list, std::size_t size) {
	if (!may_concern_us(path)) [[likely]]
		return libc::listxattr(path, list, size);
	std::string storage;
	return libc::listxattr(plain_path(AT_FDCWD, path, true, storage), list, size);
}

VERBENA_INTERPOSE(ssize_t, llistxattr, const char* path, char* list, std::size_t size) {
	if (!may_concern_us(path)) [[likely]]
		return libc::llistxattr(path, list, size);
	std::string storage;
	return libc::llistxattr(plain_path(AT_FDCWD, path, false, storage), list, size);
}
