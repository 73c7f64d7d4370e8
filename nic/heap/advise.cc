// SPDX-License-Identifier: Apache-2.0
// madvise(2) for memory of the heap, which has to behave as anonymous memory does.
#include <cerrno>
#include <sys/mman.h>

#include "nic/heap/heap.h"
#include "nic/heap/state.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

namespace verbena::heap {
namespace {

// The pages shall read as zero. Those of the file are the same for every mapping, so the kernel's
// own MADV_DONTNEED would not change what they hold. Returns 0, or -1 and errno.
int clear(State& heap, Pages pages) {
	if (heap.copied)
		return mmap(heap.at(pages.first), pages.count * page_bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED
			? -1
			: 0;
	heap.for_files(pages, [&](Pages part, const File& file, std::uint64_t offset) {
		const std::size_t bytes = part.count * page_bytes;
		if (!punch(file, offset, bytes)) ask_kernel(heap.at(part.first), bytes, MADV_REMOVE);
	});
	return 0;
}

}  // namespace

int advise(void* address, std::size_t bytes, int advice) {
	State& heap = state;
	const std::lock_guard lock(heap.mutex);
	const Pages pages{heap.page_of(address), bytes / page_bytes + (bytes % page_bytes != 0)};
	const bool plain = reinterpret_cast<std::uintptr_t>(address) % page_bytes != 0 || pages.count > heap.map.size() ||
		pages.end() > heap.map.size();
	if (plain || pages.count == 0 || !heap.is_mine()) return ask_kernel(address, bytes, advice);
	switch (advice) {
		case MADV_DONTNEED:
		case MADV_DONTNEED_LOCKED:
		case MADV_FREE: return clear(heap, pages);
		case MADV_DONTFORK:
		case MADV_DOFORK:
			if (ask_kernel(address, bytes, advice) != 0) return -1;
			if (advice == MADV_DONTFORK) heap.map.hidden().set(pages.first, pages.count);
			else heap.map.hidden().clear(pages.first, pages.count);
			return 0;
		default: return ask_kernel(address, bytes, advice);
	}
}

}  // namespace verbena::heap
