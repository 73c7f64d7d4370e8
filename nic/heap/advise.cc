// madvise(2) for memory of the heap, which has to behave as anonymous memory does.
#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic/heap/heap.h"
#include "nic/heap/state.h"

namespace verbena::heap {

int advise(void* address, std::size_t bytes, int advice) {
	return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

}  // namespace verbena::heap
