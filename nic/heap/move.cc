// Moving pages of the heap to another file, at the same address.
#include "nic/heap/heap.h"

#include "nic/heap/state.h"

#include <sys/mman.h>

namespace verbena::heap {

bool move(const void* address, std::size_t bytes) {
	State& heap = state;
	if (!find(address, bytes)) return false;
	const std::lock_guard lock(heap.mutex);
	if (!heap.moved.has_room()) return false;
	const Pages pages = pages_around(heap, address, bytes);
	const std::size_t size = pages.count * page_bytes;
	const auto file = create_file(size);
	if (!file) return false;
	const ssize_t copied = pwrite(file->descriptor, heap.at(pages.first), size, 0);
	if (copied != static_cast<ssize_t>(size) ||
		mmap(heap.at(pages.first), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->descriptor, 0) ==
			MAP_FAILED) {
		close_file(*file);
		return false;
	}
	heap.moved.add(pages, *file);
	return true;
}

bool wait_for_move(const void*) { return false; }

}  // namespace verbena::heap
