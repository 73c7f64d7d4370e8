// SPDX-License-Identifier: Apache-2.0
// Makes each call by which programs look for devices, for the device vb_lo. Prints a line for each
// one that does not do what the kernel's files would.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "expect.h"

// The call fails with this errno.
#define FAILS(call, expected) EXPECT((call) == -1 && errno == (expected))

#define DEVICE "/sys/class/infiniband/vb_lo"
#define REAL "/sys/devices/virtual/infiniband/vb_lo"
#define STATE "4: ACTIVE\n"

// Reads and closes a descriptor; true if the file is the port's state.
static int is_state(int fd) {
	char text[64] = "";
	if (fd < 0) return 0;
	ssize_t got = read(fd, text, sizeof text - 1);
	close(fd);
	return got == (ssize_t)strlen(STATE) && strcmp(text, STATE) == 0;
}

static int is_state_stream(FILE* file) {
	char text[64] = "";
	if (!file) return 0;
	int read_it = fgets(text, sizeof text, file) != NULL;
	fclose(file);
	return read_it && strcmp(text, STATE) == 0;
}

static int has_entry(DIR* folder, const char* name) {
	int found = 0;
	if (!folder) return 0;
	for (struct dirent* entry; (entry = readdir(folder));) found |= strcmp(entry->d_name, name) == 0;
	closedir(folder);
	return found;
}

static int is_device(const struct stat* status, unsigned number) {
	return S_ISCHR(status->st_mode) && (status->st_mode & 0777) == 0666 &&
		status->st_rdev == makedev(231, 192 + number);
}

static void files(void) {
	const char* path = DEVICE "/ports/1/state";
	EXPECT(is_state(open(path, O_RDONLY)));
	EXPECT(is_state(open64(path, O_RDONLY)));
	EXPECT(is_state(openat(AT_FDCWD, path, O_RDONLY)));
	EXPECT(is_state(openat64(AT_FDCWD, path, O_RDONLY)));
	EXPECT(is_state(open("//sys/class//infiniband/./vb_lo/ports/../ports/1/state", O_RDONLY)));
	EXPECT(is_state(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0)));
	struct open_how how = {.flags = O_RDONLY};
	EXPECT(is_state(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)));
	EXPECT(is_state_stream(fopen(path, "r")));
	EXPECT(is_state_stream(fopen64(path, "re")));
	EXPECT(is_state_stream(freopen(path, "r", fopen("/dev/null", "r"))));

	FAILS(open(path, O_WRONLY), EACCES);
	FAILS(open(path, O_RDWR), EACCES);
	FAILS(open(path, O_RDONLY | O_TRUNC), EACCES);
	FAILS(open(path, O_RDONLY | O_DIRECTORY), ENOTDIR);
	FAILS(open(DEVICE "/new", O_WRONLY | O_CREAT, 0600), EACCES);
	FAILS(open(DEVICE "/nothing", O_RDONLY), ENOENT);
	FAILS(open("/sys/class/infiniband/vb_nothing/fw_ver", O_RDONLY), ENOENT);
	FAILS(open(path, O_CREAT | O_EXCL | O_RDONLY, 0600), EEXIST);
	EXPECT(fopen(path, "w") == NULL && errno == EACCES);

	char text[64];
	int empty = open(DEVICE "/ports/1/gid_attrs/types/255", O_RDONLY);
	EXPECT(empty >= 0);
	FAILS(read(empty, text, sizeof text), EINVAL);
	close(empty);
}

static void names(void) {
	struct stat status;
	struct stat64 status64;
	struct statx statusx;
	EXPECT(stat(DEVICE, &status) == 0 && S_ISDIR(status.st_mode));
	EXPECT(stat64(DEVICE, &status64) == 0 && S_ISDIR(status64.st_mode));
	EXPECT(lstat(DEVICE, &status) == 0 && S_ISLNK(status.st_mode));
	EXPECT(lstat64(DEVICE, &status64) == 0 && S_ISLNK(status64.st_mode));
	EXPECT(fstatat(AT_FDCWD, DEVICE "/fw_ver", &status, 0) == 0 && S_ISREG(status.st_mode));
	EXPECT(fstatat64(AT_FDCWD, DEVICE, &status64, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status64.st_mode));
	EXPECT(statx(AT_FDCWD, DEVICE, 0, STATX_BASIC_STATS, &statusx) == 0 && S_ISDIR(statusx.stx_mode));
	EXPECT(syscall(SYS_newfstatat, AT_FDCWD, DEVICE, &status, 0) == 0 && S_ISDIR(status.st_mode));
	EXPECT(syscall(SYS_statx, AT_FDCWD, DEVICE, 0, STATX_BASIC_STATS, &statusx) == 0 && S_ISDIR(statusx.stx_mode));
	FAILS(stat(DEVICE "/nothing", &status), ENOENT);
	FAILS(stat(DEVICE "/fw_ver/x", &status), ENOTDIR);

	EXPECT(access(DEVICE "/fw_ver", R_OK) == 0);
	EXPECT(eaccess(DEVICE "/fw_ver", R_OK) == 0);
	EXPECT(euidaccess(DEVICE "/fw_ver", R_OK) == 0);
	EXPECT(faccessat(AT_FDCWD, DEVICE "/fw_ver", F_OK, 0) == 0);
	EXPECT(syscall(SYS_faccessat, AT_FDCWD, DEVICE, F_OK) == 0);
	FAILS(access(DEVICE "/nothing", F_OK), ENOENT);

	char text[PATH_MAX] = "";
	const char* target = "../../devices/virtual/infiniband/vb_lo";
	EXPECT(readlink(DEVICE, text, sizeof text) == (ssize_t)strlen(target) && memcmp(text, target, strlen(target)) == 0);
	EXPECT(readlinkat(AT_FDCWD, DEVICE, text, sizeof text) == (ssize_t)strlen(target));
	EXPECT(syscall(SYS_readlinkat, AT_FDCWD, DEVICE, text, sizeof text) == (long)strlen(target));
	FAILS(readlink(DEVICE "/fw_ver", text, sizeof text), EINVAL);
	EXPECT(realpath(DEVICE, text) && strcmp(text, REAL) == 0);
	EXPECT(realpath(DEVICE "/device/net/lo", text) && strcmp(text, "/sys/devices/virtual/net/lo") == 0);
	EXPECT(!realpath(DEVICE "/nothing", text) && errno == ENOENT);
	char* own = canonicalize_file_name(DEVICE "/ports/1");
	EXPECT(own && strcmp(own, REAL "/ports/1") == 0);
	free(own);
}

static void folders(void) {
	EXPECT(has_entry(opendir("/sys/class/infiniband"), "vb_lo"));
	EXPECT(has_entry(opendir(DEVICE "/ports/1"), "state"));
	EXPECT(opendir(DEVICE "/fw_ver") == NULL && errno == ENOTDIR);
	int folder = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
	EXPECT(is_state(openat(folder, "vb_lo/ports/1/state", O_RDONLY)));
	struct stat status;
	EXPECT(fstatat(folder, "vb_lo", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode));
	EXPECT(faccessat(folder, "vb_lo/fw_ver", R_OK, 0) == 0);
	EXPECT(has_entry(fdopendir(folder), "vb_lo"));
	int class = open("/sys/class", O_RDONLY | O_DIRECTORY);
	EXPECT(is_state(openat(class, "infiniband/vb_lo/ports/1/state", O_RDONLY)));
	close(class);

	struct dirent** list;
	int count = scandir("/sys/class/infiniband_verbs", &list, NULL, alphasort);
	EXPECT(count >= 4);  // ., .., abi_version and uverbsN
	for (int i = 0; i < count; i++) free(list[i]);
	if (count >= 0) free(list);
	glob_t found;
	EXPECT(glob(DEVICE "/ports/*/st?te", 0, NULL, &found) == 0 && found.gl_pathc == 1 &&
		strcmp(found.gl_pathv[0], DEVICE "/ports/1/state") == 0);
	globfree(&found);

	char path[PATH_MAX];
	EXPECT(chdir(DEVICE) == 0);
	EXPECT(getcwd(path, sizeof path) && strcmp(path, REAL) == 0);
	EXPECT(is_state(open("ports/1/state", O_RDONLY)));
	EXPECT(access("../vb_lo/fw_ver", R_OK) == 0);
	EXPECT(chdir("/sys/class") == 0);
	EXPECT(is_state(open("infiniband/vb_lo/ports/1/state", O_RDONLY)));
	EXPECT(chdir("/") == 0 && getcwd(path, sizeof path) && strcmp(path, "/") == 0);
}

static void node(unsigned number) {
	char path[64];
	struct stat status;
	struct statx statusx;
	snprintf(path, sizeof path, "/dev/infiniband/uverbs%u", number);
	EXPECT(stat(path, &status) == 0 && is_device(&status, number));
	EXPECT(lstat(path, &status) == 0 && is_device(&status, number));
	EXPECT(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &statusx) == 0 && S_ISCHR(statusx.stx_mode) &&
		statusx.stx_rdev_major == 231 && statusx.stx_rdev_minor == 192 + number);
	EXPECT(access(path, R_OK | W_OK) == 0);
	FAILS(access(path, X_OK), EACCES);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0 && fstat(fd, &status) == 0 && is_device(&status, number));
	EXPECT(fstatat(fd, "", &status, AT_EMPTY_PATH) == 0 && is_device(&status, number));
	int copy = dup(fd);
	EXPECT(fstat(copy, &status) == 0 && is_device(&status, number));
	close(copy);
	char bytes[64] = "";
	FAILS(read(fd, bytes, sizeof bytes), EAGAIN);
	EXPECT(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	FAILS(ioctl(fd, _IOWR(0x1b, 1, char[24]), bytes), ENOTTY);
	FAILS(write(fd, bytes, sizeof bytes), EINVAL);
	EXPECT(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV);
	struct pollfd ready = {.fd = fd, .events = POLLIN | POLLOUT};
	EXPECT(poll(&ready, 1, 0) == 0);
	close(fd);
	FAILS(open(path, O_RDONLY | O_DIRECTORY), ENOTDIR);
}

static void others(void) {
	struct stat status;
	EXPECT(stat("/dev/null", &status) == 0 && status.st_rdev == makedev(1, 3));
	EXPECT(access("/sys/class/net/lo", F_OK) == 0);
	FAILS(open("/sys/class/infiniband_nothing", O_RDONLY), ENOENT);
	FAILS(open("", O_RDONLY), ENOENT);
	FAILS(syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY), EFAULT);
	EXPECT(syscall(SYS_getpid) == getpid());
}

int main(void) {
	unsigned number = 0;
	char text[16] = "";
	int index = open("/sys/class/net/lo/ifindex", O_RDONLY);
	if (index >= 0 && read(index, text, sizeof text - 1) > 0) number = (unsigned)atoi(text);
	close(index);
	if (access("/sys/class/infiniband/vb_lo", F_OK) == 0 && number) {
		char path[64];
		snprintf(path, sizeof path, "/dev/infiniband/uverbs%u", number);
		if (access(path, F_OK) != 0) number += 1000;  // this machine has real devices
	}
	files();
	names();
	folders();
	node(number);
	others();
	return faults > 0;
}
