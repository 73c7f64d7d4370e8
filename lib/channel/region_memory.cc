// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/region_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace verbena::channel {
namespace {

constexpr std::size_t huge_page = 2 << 20;

}  // namespace

RegionMemory::RegionMemory(std::size_t bytes) : bytes_(bytes), file_(memfd_create("verbena-memory", MFD_CLOEXEC)) {
	if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes)) != 0) {
		close(file_);
		file_ = -1;
	}
	void* const at = file_ >= 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
								: mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) return;
	at_ = static_cast<std::byte*>(at);
	if (bytes >= huge_page) madvise(at, bytes, MADV_HUGEPAGE);
	// The mapping is shared, so a child would write into our memory.
	madvise(at, bytes, MADV_DONTFORK);
}

RegionMemory::~RegionMemory() {
	if (at_ != nullptr) munmap(at_, bytes_);
	if (file_ < 0) return;
	// Frees the pages even if another process still maps them.
	[[maybe_unused]] const int cut = ftruncate(file_, 0);
	close(file_);
}

}  // namespace verbena::channel
