// SPDX-License-Identifier: Apache-2.0
// Makes the calls of calls.c by the names that few programs use: system calls without a wrapper,
// the functions of _FORTIFY_SOURCE, the 64-bit names, and extended attributes. Prints a line for
// each one that does not do what the kernel's files would.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "expect.h"

#define FAILS(call, expected) EXPECT((call) == -1 && errno == (expected))
// There is no such attribute, or this file system has none at all.
#define LACKS(call) EXPECT((call) == -1 && (errno == ENODATA || errno == ENOTSUP))

#define DEVICE "/sys/class/infiniband/vb_lo"
#define PORT_STATE DEVICE "/ports/1/state"
#define LINK_TARGET "../../devices/virtual/infiniband/vb_lo"
#define STATE "4: ACTIVE\n"

// Not constants, so that the compiler calls the functions of _FORTIFY_SOURCE.
static volatile int read_only = O_RDONLY;
static volatile size_t room = PATH_MAX;

// Reads and closes a descriptor; true if the file is the port's state.
static int is_state(long fd) {
	char text[64] = "";
	if (fd < 0) return 0;
	const ssize_t got = read((int)fd, text, sizeof text - 1);
	close((int)fd);
	return got == (ssize_t)strlen(STATE) && strcmp(text, STATE) == 0;
}

static int is_target(long length, const char* text) {
	return length == (long)strlen(LINK_TARGET) && memcmp(text, LINK_TARGET, strlen(LINK_TARGET)) == 0;
}

static void system_calls(void) {
	struct stat status;
	char text[PATH_MAX];
#ifdef SYS_open
	EXPECT(is_state(syscall(SYS_open, PORT_STATE, O_RDONLY, 0)));
	FAILS(syscall(SYS_open, PORT_STATE, O_WRONLY, 0), EACCES);
	FAILS(syscall(SYS_open, "/nothing", O_RDONLY, 0), ENOENT);
	EXPECT(syscall(SYS_stat, DEVICE, &status) == 0 && S_ISDIR(status.st_mode));
	EXPECT(syscall(SYS_lstat, DEVICE, &status) == 0 && S_ISLNK(status.st_mode));
	FAILS(syscall(SYS_stat, DEVICE "/nothing", &status), ENOENT);
	EXPECT(syscall(SYS_access, DEVICE "/fw_ver", R_OK) == 0);
	FAILS(syscall(SYS_access, DEVICE "/fw_ver", X_OK), EACCES);
	EXPECT(is_target(syscall(SYS_readlink, DEVICE, text, sizeof text), text));
#endif
	EXPECT(syscall(SYS_faccessat2, AT_FDCWD, DEVICE "/fw_ver", R_OK, AT_EACCESS) == 0);
	FAILS(syscall(SYS_faccessat2, AT_FDCWD, DEVICE "/nothing", F_OK, 0), ENOENT);
	// The path leaves the folder below which the call may look.
	struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
	FAILS(syscall(SYS_openat2, AT_FDCWD, PORT_STATE, &how, sizeof how), EXDEV);
}

// libc has this wrapper since its version 2.42; a program that finds it may use it.
static void wrapper_of_openat2(void) {
	int (*openat2)(int, const char*, const struct open_how*, size_t) = NULL;
	*(void**)&openat2 = dlsym(RTLD_DEFAULT, "openat2");
	EXPECT(openat2 != NULL);
	if (!openat2) return;
	struct open_how how = {.flags = O_RDONLY};
	EXPECT(is_state(openat2(AT_FDCWD, PORT_STATE, &how, sizeof how)));
	FAILS(openat2(AT_FDCWD, PORT_STATE, &how, 1), EINVAL);
	FAILS(openat2(AT_FDCWD, DEVICE "/nothing", &how, sizeof how), ENOENT);
	how.resolve = RESOLVE_IN_ROOT;
	FAILS(openat2(AT_FDCWD, "/nothing", &how, sizeof how), ENOENT);
}

static void fortified(void) {
	char text[PATH_MAX];
	EXPECT(is_state(open(PORT_STATE, read_only)));
	EXPECT(is_state(open64(PORT_STATE, read_only)));
	EXPECT(is_state(openat(AT_FDCWD, PORT_STATE, read_only)));
	EXPECT(is_state(openat64(AT_FDCWD, PORT_STATE, read_only)));
	FAILS(open(DEVICE "/nothing", read_only), ENOENT);
	FAILS(openat(AT_FDCWD, DEVICE "/nothing", read_only), ENOENT);
	EXPECT(is_target(readlink(DEVICE, text, room), text));
	EXPECT(is_target(readlinkat(AT_FDCWD, DEVICE, text, room), text));
	FAILS(readlink(DEVICE "/fw_ver", text, room), EINVAL);
	// The same functions for files of others.
	int null = open("/dev/null", read_only);
	EXPECT(null >= 0);
	close(null);
	null = openat64(AT_FDCWD, "/dev/null", read_only);
	EXPECT(null >= 0);
	close(null);
	FAILS(readlink("/dev/null", text, room), EINVAL);
	EXPECT(readlink("/proc/self/exe", text, room) > 0);
}

static void other_names(void) {
	char text[PATH_MAX] = "";
	struct dirent** list;
	int count = scandir("/sys/class/net", &list, NULL, alphasort);
	EXPECT(count >= 3);  // ., .. and lo
	for (int i = 0; i < count; i++) free(list[i]);
	if (count >= 0) free(list);
	struct dirent64** list64;
	count = scandir64("/sys/class/infiniband", &list64, NULL, alphasort64);
	EXPECT(count >= 3);
	for (int i = 0; i < count; i++) free(list64[i]);
	if (count >= 0) free(list64);
	EXPECT(scandir64(DEVICE "/nothing", &list64, NULL, NULL) == -1 && errno == ENOENT);

	glob64_t found;
	EXPECT(glob64(DEVICE "/ports/*/st?te", 0, NULL, &found) == 0 && found.gl_pathc == 1 &&
		strcmp(found.gl_pathv[0], PORT_STATE) == 0);
	globfree64(&found);
	EXPECT(glob64("/dev/nul?", 0, NULL, &found) == 0 && found.gl_pathc == 1);
	globfree64(&found);

	FILE* stream = freopen64(PORT_STATE, "r", fopen("/dev/null", "r"));
	EXPECT(stream && fgets(text, sizeof text, stream) && strcmp(text, STATE) == 0);
	if (stream) fclose(stream);
	EXPECT(fopen(PORT_STATE, "?") == NULL && errno == EINVAL);
	EXPECT(realpath("/dev/../dev/null", text) && strcmp(text, "/dev/null") == 0);
	EXPECT(canonicalize_file_name(DEVICE "/nothing") == NULL && errno == ENOENT);
}

// The files have no extended attributes; `ls -l` asks for them.
static void attributes(void) {
	char text[64];
	LACKS(getxattr(DEVICE "/fw_ver", "user.none", text, sizeof text));
	LACKS(lgetxattr(DEVICE, "user.none", text, sizeof text));
	EXPECT(listxattr(DEVICE "/fw_ver", NULL, 0) >= 0 || errno == ENOTSUP);
	EXPECT(llistxattr(DEVICE, NULL, 0) >= 0 || errno == ENOTSUP);
	FAILS(listxattr(DEVICE "/nothing", NULL, 0), ENOENT);
	FAILS(llistxattr(DEVICE "/nothing", NULL, 0), ENOENT);
	FAILS(getxattr("/nothing", "user.none", text, sizeof text), ENOENT);
	FAILS(lgetxattr("/nothing", "user.none", text, sizeof text), ENOENT);
	FAILS(listxattr("/nothing", NULL, 0), ENOENT);
	FAILS(llistxattr("/nothing", NULL, 0), ENOENT);
}

int main(void) {
	system_calls();
	wrapper_of_openat2();
	fortified();
	other_names();
	attributes();
	return faults > 0;
}
