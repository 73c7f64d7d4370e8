// SPDX-License-Identifier: Apache-2.0
/* power_loss.so: preloaded into a server, records what it writes below a folder and what it
 * synchronises, so that a test can build the disk as a power failure may leave it.
 *
 *     POWER_LOSS_FOLDER   the folder; files and folders below it, and itself, are recorded
 *     POWER_LOSS_LOG      the log, a file outside of the folder
 *
 * The calls take effect as always. Each record of the log is a `struct record`, then `path_bytes`
 * bytes of the path, then `length` bytes of data for a write. Files are named by their path. A file
 * opened with O_DSYNC or O_SYNC is recorded with a sync after each write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { made_folder = 1, made_file, wrote, truncated, synced };

struct record {
	int64_t time_ns; /* CLOCK_MONOTONIC, when the call had returned */
	uint32_t kind;
	uint32_t path_bytes;
	uint64_t offset; /* where a write begins; the new size of a truncated file */
	uint64_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_file = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_below(const char *path)
{
	const char *folder = getenv("POWER_LOSS_FOLDER");
	const size_t length = folder ? strlen(folder) : 0;
	return length != 0 && strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static int path_of(int file, char path[PATH_MAX])
{
	char name[32];
	snprintf(name, sizeof name, "/proc/self/fd/%d", file);
	const ssize_t length = readlink(name, path, PATH_MAX - 1);
	if (length <= 0) return 0;
	path[length] = 0;
	return is_below(path);
}

static void all(struct iovec *parts, int count)
{
	const ssize_t done = REAL(writev)(log_file, parts, count);
	size_t wanted = 0;
	for (int i = 0; i < count; ++i) wanted += parts[i].iov_len;
	if (done < 0 || (size_t)done != wanted) abort(); /* the test would judge half a log */
}

static void note(enum kind kind, const char *path, uint64_t offset, const void *data, uint64_t length)
{
	const int error = errno;
	pthread_mutex_lock(&lock);
	if (log_file < 0)
		log_file = REAL(open)(getenv("POWER_LOSS_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_file < 0) abort();
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	struct record record = {.time_ns = t.tv_sec * 1000000000LL + t.tv_nsec,
		.kind = kind,
		.path_bytes = (uint32_t)strlen(path),
		.offset = offset,
		.length = length};
	struct iovec parts[] = {{&record, sizeof record}, {(void *)path, record.path_bytes}, {(void *)data, length}};
	all(parts, kind == wrote ? 3 : 2);
	pthread_mutex_unlock(&lock);
	errno = error;
}

static void note_write(int file, const char *path, uint64_t offset, const void *data, ssize_t done)
{
	if (done <= 0) return;
	note(wrote, path, offset, data, (uint64_t)done);
	if (fcntl(file, F_GETFL) & O_DSYNC) note(synced, path, 0, NULL, 0);
}

int mkdir(const char *path, mode_t mode)
{
	const int done = REAL(mkdir)(path, mode);
	char whole[PATH_MAX];
	if (done == 0 && realpath(path, whole) != NULL && is_below(whole)) note(made_folder, whole, 0, NULL, 0);
	return done;
}

static int open_and_note(const char *path, int flags, mode_t mode)
{
	struct stat before;
	const int was_there = stat(path, &before) == 0;
	const int file = REAL(open)(path, flags, mode);
	char whole[PATH_MAX];
	if (file >= 0 && !was_there && (flags & O_CREAT) && path_of(file, whole)) note(made_file, whole, 0, NULL, 0);
	if (file >= 0 && was_there && (flags & O_TRUNC) && path_of(file, whole)) note(truncated, whole, 0, NULL, 0);
	return file;
}

int open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return open_and_note(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return open_and_note(path, flags, mode);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
	const ssize_t done = REAL(pwrite)(file, data, size, offset);
	char path[PATH_MAX];
	if (path_of(file, path)) note_write(file, path, (uint64_t)offset, data, done);
	return done;
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset)
{
	return pwrite(file, data, size, offset);
}

ssize_t write(int file, const void *data, size_t size)
{
	const ssize_t done = REAL(write)(file, data, size);
	char path[PATH_MAX];
	if (done > 0 && path_of(file, path))
		note_write(file, path, (uint64_t)(lseek(file, 0, SEEK_CUR) - done), data, done);
	return done;
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
	const ssize_t done = REAL(writev)(file, parts, count);
	char path[PATH_MAX];
	if (done <= 0 || !path_of(file, path)) return done;
	uint64_t offset = (uint64_t)(lseek(file, 0, SEEK_CUR) - done);
	ssize_t left = done;
	for (int i = 0; i < count && left > 0; ++i) {
		const ssize_t piece = (ssize_t)parts[i].iov_len < left ? (ssize_t)parts[i].iov_len : left;
		note_write(file, path, offset, parts[i].iov_base, piece);
		offset += (uint64_t)piece;
		left -= piece;
	}
	return done;
}

int ftruncate(int file, off_t size)
{
	const int done = REAL(ftruncate)(file, size);
	char path[PATH_MAX];
	if (done == 0 && path_of(file, path)) note(truncated, path, (uint64_t)size, NULL, 0);
	return done;
}

int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

int fsync(int file)
{
	const int done = REAL(fsync)(file);
	char path[PATH_MAX];
	if (done == 0 && path_of(file, path)) note(synced, path, 0, NULL, 0);
	return done;
}

int fdatasync(int file)
{
	const int done = REAL(fdatasync)(file);
	char path[PATH_MAX];
	if (done == 0 && path_of(file, path)) note(synced, path, 0, NULL, 0);
	return done;
}
