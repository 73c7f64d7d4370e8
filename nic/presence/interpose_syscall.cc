// SPDX-License-Identifier: Apache-2.0
// The system calls on paths that programs make by syscall(2), or by wrappers that newer versions of
// libc have.
//
// The function passes its arguments on in the registers and the stack slots in which they came, so
// it works for system calls of every kind.
#include <sys/syscall.h>

#include <linux/openat2.h>

#include "nic/presence/file.h"
#include "nic/presence/libc.h"

using verbena::presence::access_file;
using verbena::presence::may_concern_us;
using verbena::presence::open_file;
using verbena::presence::read_link;
using verbena::presence::stat_file;
namespace presence = verbena::presence;
namespace libc = verbena::presence::libc;

namespace {

// The argument of a system call that has the path, or -1.
int path_argument(long number) {
	switch (number) {
#ifdef SYS_open
		case SYS_open:
		case SYS_stat:
		case SYS_lstat:
		case SYS_access:
		case SYS_readlink: return 0;
#endif
		case SYS_openat:
		case SYS_openat2:
		case SYS_newfstatat:
		case SYS_statx:
		case SYS_faccessat:
		case SYS_faccessat2:
		case SYS_readlinkat: return 1;
		default: return -1;
	}
}

// openat2(2) with these restrictions fails for a path that leaves its folder, as ours do.
bool confined(const open_how& how) { return how.resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT); }

template <class T> T* pointer(long argument) {
	// NOLINTNEXTLINE(performance-no-int-to-ptr): system calls have pointers in integers
	return reinterpret_cast<T*>(argument);
}

// One of the calls of path_argument(), for a path that may be ours.
long call(long number, long a, long b, long c, long d, long e) {
	const int dirfd = static_cast<int>(a);
	const auto* path = pointer<const char>(b);
	switch (number) {
#ifdef SYS_open
		case SYS_open: return open_file(AT_FDCWD, pointer<const char>(a), static_cast<int>(b), static_cast<mode_t>(c));
		case SYS_stat: return stat_file(AT_FDCWD, pointer<const char>(a), pointer<struct stat>(b), 0);
		case SYS_lstat:
			return stat_file(AT_FDCWD, pointer<const char>(a), pointer<struct stat>(b), AT_SYMLINK_NOFOLLOW);
		case SYS_access: return access_file(AT_FDCWD, pointer<const char>(a), static_cast<int>(b), 0);
		case SYS_readlink:
			return read_link(AT_FDCWD, pointer<const char>(a), pointer<char>(b), static_cast<std::size_t>(c));
#endif
		case SYS_openat: return open_file(dirfd, path, static_cast<int>(c), static_cast<mode_t>(d));
		case SYS_openat2: {
			const auto& how = *pointer<const open_how>(c);
			if (confined(how)) break;
			return open_file(dirfd, path, static_cast<int>(how.flags), static_cast<mode_t>(how.mode));
		}
		case SYS_newfstatat: return stat_file(dirfd, path, pointer<struct stat>(c), static_cast<int>(d));
		case SYS_statx:
			return presence::statx_file(
				dirfd, path, static_cast<int>(c), static_cast<unsigned>(d), pointer<struct statx>(e));
		case SYS_faccessat: return access_file(dirfd, path, static_cast<int>(c), 0);
		case SYS_faccessat2: return access_file(dirfd, path, static_cast<int>(c), static_cast<int>(d));
		case SYS_readlinkat: return read_link(dirfd, path, pointer<char>(c), static_cast<std::size_t>(d));
		default: break;
	}
	return libc::syscall(number, a, b, c, d, e, 0);
}

}  // namespace

VERBENA_INTERPOSE(long, syscall, long number, long a, long b, long c, long d, long e, long f) {
	const int argument = path_argument(number);
	if (argument == 0 && may_concern_us(pointer<const char>(a))) [[unlikely]]
		return call(number, a, b, c, d, e);
	if (argument == 1 && may_concern_us(static_cast<int>(a), pointer<const char>(b))) [[unlikely]]
		return call(number, a, b, c, d, e);
	return libc::syscall(number, a, b, c, d, e, f);
}

VERBENA_INTERPOSE(int, openat2, int dirfd, const char* path, const open_how* how, std::size_t size) {
	if (may_concern_us(dirfd, path) && how && size >= sizeof *how && !confined(*how)) [[unlikely]]
		return open_file(dirfd, path, static_cast<int>(how->flags), static_cast<mode_t>(how->mode));
	return static_cast<int>(libc::syscall(
		SYS_openat2, dirfd, reinterpret_cast<long>(path), reinterpret_cast<long>(how), static_cast<long>(size), 0, 0));
}
