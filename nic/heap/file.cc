// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::heap {
namespace {

constexpr unsigned no_exec_seal = 0x8;  // MFD_NOEXEC_SEAL, since Linux 6.3
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// ftruncate() beyond the limit would send SIGXFSZ to the program.
bool size_allowed(std::size_t bytes) {
	rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

}  // namespace

std::optional<File> create_file(std::size_t bytes) {
	if (!size_allowed(bytes)) return std::nullopt;
	constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int descriptor = memfd_create("verbena-heap", flags | no_exec_seal);
	if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create("verbena-heap", flags);
	if (descriptor < 0) return std::nullopt;
	struct stat facts;
	if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || fcntl(descriptor, F_ADD_SEALS, size_seals) != 0 ||
		fstat(descriptor, &facts) != 0) {
		close(descriptor);
		return std::nullopt;
	}
	return File{descriptor, facts.st_ino, facts.st_dev};
}

bool is_open(const File& file) {
	struct stat facts;
	return fstat(file.descriptor, &facts) == 0 && facts.st_ino == file.inode && facts.st_dev == file.device;
}

void close_file(const File& file) {
	if (is_open(file)) close(file.descriptor);
}

bool punch(const File& file, std::uint64_t offset, std::size_t bytes) {
	return is_open(file) &&
		fallocate(file.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
			static_cast<off_t>(bytes)) == 0;
}

bool close_range(void* begin, std::size_t bytes) {
	constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	return mmap(begin, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

int ask_kernel(void* address, std::size_t bytes, int advice) {
	return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

bool read_all(const File& file, std::uint64_t offset, void* to, std::size_t bytes) {
	auto* at = static_cast<std::byte*>(to);
	while (bytes > 0) {
		const ssize_t got = pread(file.descriptor, at, bytes, static_cast<off_t>(offset));
		if (got <= 0) return false;
		at += got;
		offset += static_cast<std::uint64_t>(got);
		bytes -= static_cast<std::size_t>(got);
	}
	return true;
}

std::optional<Extent> next_data(const File& file, std::uint64_t begin, std::uint64_t end) {
	if (!is_open(file)) return std::nullopt;
	const off_t data = lseek(file.descriptor, static_cast<off_t>(begin), SEEK_DATA);
	if (data < 0 && errno != ENXIO) return Extent{begin, end};
	if (data < 0 || static_cast<std::uint64_t>(data) >= end) return std::nullopt;
	const off_t hole = lseek(file.descriptor, data, SEEK_HOLE);
	if (hole < 0) return Extent{static_cast<std::uint64_t>(data), end};
	return Extent{static_cast<std::uint64_t>(data), std::min(static_cast<std::uint64_t>(hole), end)};
}

}  // namespace verbena::heap
