// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/sealed_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>

namespace verbena::engine::detail {

namespace {
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// This process's own memory could not be sealed, because a filter of system calls forbids it or the
// kernel is too old. Then no peer in the same sandbox can seal its memory either.
std::atomic<bool> seals_refused{false};

bool refused(int error) { return error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL; }

// Memory without a name, where memfd_create() is refused: a file that was never linked. Its pages
// are allocated now, because a full file system would otherwise show as a SIGBUS later.
std::expected<Descriptor, int> create_file(std::size_t bytes) {
	Descriptor fd(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	if (!fd) return std::unexpected(errno);
	if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes))) return std::unexpected(error);
	return fd;
}

}  // namespace

std::expected<Descriptor, int> create_memory(const char* name, std::size_t bytes, WithoutMemfd otherwise) {
	Descriptor fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (!fd && refused(errno)) return otherwise == WithoutMemfd::file ? create_file(bytes) : std::unexpected(ENOTSUP);
	if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return std::unexpected(errno);
	return fd;
}

std::expected<void*, int> map_memory(int fd, std::size_t bytes, int protection, std::size_t prefault) {
	void* at = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) return std::unexpected(errno);
	// A child that wrote into a ring would send in its parent's name, and one that only held the
	// mapping would keep the memory alive.
	if (madvise(at, bytes, MADV_DONTFORK) != 0) {
		const int error = errno;
		munmap(at, bytes);
		return std::unexpected(error);
	}
	if (prefault)
		// Since Linux 5.14. On older kernels the first messages take the page faults.
		madvise(at, prefault, MADV_POPULATE_WRITE);
	return at;
}

int seal_memory(int fd, bool others_may_write) {
	// F_SEAL_FUTURE_WRITE leaves the mapping that exists writable. Before Linux 5.1 there is no
	// such seal, and peers of the same user can write what they should only read: the progress
	// page.
	if (!others_may_write && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0 && !refused(errno)) return errno;
	if (fcntl(fd, F_ADD_SEALS, size_seals) == 0) return 0;
	if (!refused(errno)) return errno;
	seals_refused.store(true, std::memory_order_relaxed);
	return 0;
}

int check_sealed(int fd, std::size_t bytes, Seals wanted) {
	struct stat facts;
	if (fstat(fd, &facts) != 0) return errno;
	if (!S_ISREG(facts.st_mode) || facts.st_size != static_cast<off_t>(bytes)) return EPROTO;
	// Without seals, a peer of the same user could shrink the memory and so end this process.
	if (wanted == Seals::if_possible && seals_refused.load(std::memory_order_relaxed)) return 0;
	const int seals = fcntl(fd, F_GET_SEALS);  // fails for a file that is not a memfd
	return seals < 0 || (seals & size_seals) != size_seals ? EPROTO : 0;
}

}  // namespace verbena::engine::detail
