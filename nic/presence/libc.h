// SPDX-License-Identifier: Apache-2.0
// libc's own functions, behind those that we interpose.
//
// Threads: any, also signal handlers and the children of vfork, once the process has started. A
//   call before our constructor runs looks the function up.
// Errors: a function that the installed libc lacks fails with ENOSYS.
#pragma once

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include <dlfcn.h>

// Defines an exported function of ours under libc's name. Inside of our code it has another name,
// so libc's declaration, with attributes that do not fit us (a path that is not null, no
// exceptions), does not apply to it.
//
// open() and others are variadic in libc's headers. Ours has all the parameters that there can be:
// the calling conventions of x86-64 and AArch64 Linux pass integers and pointers in both cases in
// the same places, and libc's function does not look at an argument that its flags do not announce.
#define VERBENA_INTERPOSE(result, name, ...)                                                                  \
	extern "C" __attribute__((visibility("default"))) result verbena_libc_##name(__VA_ARGS__) __asm__(#name); \
	extern "C" result verbena_libc_##name(__VA_ARGS__)

namespace verbena::presence {

template <class Function> class RealFunction;

// One of libc's functions.
template <class Result, class... Parameters> class RealFunction<Result(Parameters...)> {
public:
	using Pointer = Result (*)(Parameters...);
	constexpr explicit RealFunction(const char* name) : name_(name) {}

	Result operator()(Parameters... parameters) {
		const Pointer function = function_.load(std::memory_order_relaxed);
		return (function ? function : look_up())(parameters...);
	}
	Pointer look_up() {
		auto found = reinterpret_cast<Pointer>(dlsym(RTLD_NEXT, name_));
		if (!found) found = absent;
		function_.store(found, std::memory_order_relaxed);
		return found;
	}

private:
	static Result absent(Parameters...) {
		errno = ENOSYS;
		return failure(static_cast<Result*>(nullptr));
	}
	template <class T> static T* failure(T**) { return nullptr; }
	template <class T> static T failure(T*) { return static_cast<T>(-1); }

	const char* name_;
	std::atomic<Pointer> function_{nullptr};
};

// X(member, signature, name)
#define VERBENA_LIBC_FUNCTIONS(X)                                                                                      \
	X(open, int(const char*, int, mode_t))                                                                             \
	X(open64, int(const char*, int, mode_t))                                                                           \
	X(__open_2, int(const char*, int))                                                                                 \
	X(__open64_2, int(const char*, int))                                                                               \
	X(openat, int(int, const char*, int, mode_t))                                                                      \
	X(openat64, int(int, const char*, int, mode_t))                                                                    \
	X(__openat_2, int(int, const char*, int))                                                                          \
	X(__openat64_2, int(int, const char*, int))                                                                        \
	X(fopen, std::FILE*(const char*, const char*))                                                                     \
	X(fopen64, std::FILE*(const char*, const char*))                                                                   \
	X(freopen, std::FILE*(const char*, const char*, std::FILE*))                                                       \
	X(freopen64, std::FILE*(const char*, const char*, std::FILE*))                                                     \
	X(stat, int(const char*, struct stat*))                                                                            \
	X(stat64, int(const char*, struct stat64*))                                                                        \
	X(lstat, int(const char*, struct stat*))                                                                           \
	X(lstat64, int(const char*, struct stat64*))                                                                       \
	X(fstat, int(int, struct stat*))                                                                                   \
	X(fstat64, int(int, struct stat64*))                                                                               \
	X(fstatat, int(int, const char*, struct stat*, int))                                                               \
	X(fstatat64, int(int, const char*, struct stat64*, int))                                                           \
	X(__xstat, int(int, const char*, struct stat*))                                                                    \
	X(__xstat64, int(int, const char*, struct stat64*))                                                                \
	X(__lxstat, int(int, const char*, struct stat*))                                                                   \
	X(__lxstat64, int(int, const char*, struct stat64*))                                                               \
	X(__fxstat, int(int, int, struct stat*))                                                                           \
	X(__fxstat64, int(int, int, struct stat64*))                                                                       \
	X(__fxstatat, int(int, int, const char*, struct stat*, int))                                                       \
	X(__fxstatat64, int(int, int, const char*, struct stat64*, int))                                                   \
	X(statx, int(int, const char*, int, unsigned, struct statx*))                                                      \
	X(access, int(const char*, int))                                                                                   \
	X(euidaccess, int(const char*, int))                                                                               \
	X(eaccess, int(const char*, int))                                                                                  \
	X(faccessat, int(int, const char*, int, int))                                                                      \
	X(readlink, ssize_t(const char*, char*, std::size_t))                                                              \
	X(readlinkat, ssize_t(int, const char*, char*, std::size_t))                                                       \
	X(__readlink_chk, ssize_t(const char*, char*, std::size_t, std::size_t))                                           \
	X(__readlinkat_chk, ssize_t(int, const char*, char*, std::size_t, std::size_t))                                    \
	X(realpath, char*(const char*, char*))                                                                             \
	X(__realpath_chk, char*(const char*, char*, std::size_t))                                                          \
	X(canonicalize_file_name, char*(const char*))                                                                      \
	X(opendir, DIR*(const char*))                                                                                      \
	X(scandir, int(const char*, dirent***, int (*)(const dirent*), int (*)(const dirent**, const dirent**)))           \
	X(scandir64, int(const char*, dirent64***, int (*)(const dirent64*), int (*)(const dirent64**, const dirent64**))) \
	X(glob, int(const char*, int, int (*)(const char*, int), glob_t*))                                                 \
	X(glob64, int(const char*, int, int (*)(const char*, int), glob64_t*))                                             \
	X(chdir, int(const char*))                                                                                         \
	X(fchdir, int(int))                                                                                                \
	X(getcwd, char*(char*, std::size_t))                                                                               \
	X(getxattr, ssize_t(const char*, const char*, void*, std::size_t))                                                 \
	X(lgetxattr, ssize_t(const char*, const char*, void*, std::size_t))                                                \
	X(listxattr, ssize_t(const char*, char*, std::size_t))                                                             \
	X(llistxattr, ssize_t(const char*, char*, std::size_t))                                                            \
	X(socket, int(int, int, int))                                                                                      \
	X(syscall, long(long, long, long, long, long, long, long))

namespace libc {
#define VERBENA_DECLARE(name, ...) extern constinit RealFunction<__VA_ARGS__> name;
VERBENA_LIBC_FUNCTIONS(VERBENA_DECLARE)
#undef VERBENA_DECLARE
}  // namespace libc

}  // namespace verbena::presence
