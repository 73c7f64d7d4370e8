#include "nic/engine/sealed_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace verbena::engine::detail {

namespace {
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}

std::expected<Descriptor, int> create_memory(const char* name, std::size_t bytes) {
	Descriptor fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
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
	// F_SEAL_FUTURE_WRITE leaves the mapping that exists writable.
	if (!others_may_write && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) return errno;
	return fcntl(fd, F_ADD_SEALS, size_seals) != 0 ? errno : 0;
}

int check_sealed(int fd, std::size_t bytes) {
	struct stat facts;
	if (fstat(fd, &facts) != 0) return errno;
	if (!S_ISREG(facts.st_mode) || facts.st_size != static_cast<off_t>(bytes)) return EPROTO;
	const int seals = fcntl(fd, F_GET_SEALS);  // fails for a file that is not a memfd
	return seals < 0 || (seals & size_seals) != size_seals ? EPROTO : 0;
}

}  // namespace verbena::engine::detail
