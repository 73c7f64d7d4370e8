// SPDX-License-Identifier: Apache-2.0
// Moving pages of the heap to a file of their own, at the same address.
//
// While the pages are copied they are read-only, so no byte that this process stores is lost. A
// thread that stores there faults; the handler of SIGSEGV calls wait_for_move() and the store is
// tried again. A system call of another thread that writes there meanwhile fails with EFAULT, and
// memory that a device or io_uring has pinned stays in the old file.
#include "nic/heap/heap.h"

#include <climits>
#include <csignal>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kept_errno.h"
#include "nic/heap/state.h"

namespace verbena::heap {
namespace {

// The range that is being moved: an address in [begin, end) may fault. `ended` counts the moves,
// and waiters sleep on it.
struct Moving {
	std::atomic<std::uintptr_t> begin{0}, end{0};
	std::atomic<std::uint32_t> ended{0};

	bool contains(const void* address) const {
		const auto at = reinterpret_cast<std::uintptr_t>(address);
		return at >= begin.load() && at < end.load();
	}
};
constinit Moving moving;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
	return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// Makes pages read-only, and lets the threads that fault there wait until the object's end. No
// signal handler runs on this thread meanwhile: it would wait for itself.
class Announced {
public:
	Announced(std::byte* begin, std::size_t bytes) {
		const std::uint64_t all = ~std::uint64_t{0};
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
		moving.begin.store(reinterpret_cast<std::uintptr_t>(begin));
		moving.end.store(reinterpret_cast<std::uintptr_t>(begin) + bytes);
		read_only_ = mprotect(begin, bytes, PROT_READ) == 0;
	}
	~Announced() {
		moving.end.store(0);
		moving.ended.fetch_add(1);
		futex(moving.ended, FUTEX_WAKE, INT_MAX);
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
	}
	Announced(const Announced&) = delete;
	Announced& operator=(const Announced&) = delete;
	bool read_only() const { return read_only_; }

private:
	std::uint64_t before_ = 0;
	bool read_only_ = false;
};

// Copies memory to a file. The system call itself, because a sanitizer would take its reads for
// those of this thread, and call them a race with the program's stores.
bool write_all(const File& file, std::uint64_t offset, const std::byte* from, std::size_t bytes) {
	while (bytes > 0) {
		const long written = syscall(SYS_pwrite64, file.descriptor, from, bytes, offset);
		if (written <= 0) return false;
		from += written;
		offset += static_cast<std::uint64_t>(written);
		bytes -= static_cast<std::size_t>(written);
	}
	return true;
}

// Copies the pages that have memory; the others are zero in both files.
bool copy_pages(const State& heap, Pages pages, const File& to) {
	bool good = true;
	heap.for_files(pages, [&](Pages part, const File& from, std::uint64_t begin) {
		const std::uint64_t end = begin + part.count * page_bytes;
		good = good && is_open(from);
		for (std::uint64_t at = begin; good && at < end;) {
			const auto data = next_data(from, at, end);
			if (!data) break;
			const std::uint64_t within = (part.first - pages.first) * page_bytes + (data->begin - begin);
			good = write_all(to, within, heap.at(pages.first) + within, data->end - data->begin);
			at = data->end;
		}
	});
	return good;
}

// Puts the new file in the place of the old one. The new pages are again left out of forks if the
// program had asked for that.
bool replace(State& heap, Pages pages, const File& file) {
	std::byte* const begin = heap.at(pages.first);
	// The system call itself, as above.
	if (syscall(SYS_mmap, begin, pages.count * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			file.descriptor, 0) == -1)
		return false;
	const Marks& hidden = heap.map.hidden();
	for (std::size_t page = hidden.next(pages.first, pages.end()); page < pages.end();) {
		const std::size_t end = hidden.next_without(page, pages.end());
		ask_kernel(heap.at(page), (end - page) * page_bytes, MADV_DONTFORK);
		page = hidden.next(end, pages.end());
	}
	return true;
}

}  // namespace

bool move(const void* address, std::size_t bytes) {
	if (!contains(address) || !enabled()) return false;
	const KeptErrno kept;
	State& heap = state;
	const std::lock_guard lock(heap.mutex);
	const auto located = heap.locate(address, bytes);
	if (!located || !heap.moved.has_room()) return false;
	const Pages pages = located->pages;
	const auto file = create_file(pages.count * page_bytes);
	if (!file) return false;
	{
		const Announced announced(heap.at(pages.first), pages.count * page_bytes);
		if (!announced.read_only() || !copy_pages(heap, pages, *file) || !replace(heap, pages, *file)) {
			mprotect(heap.at(pages.first), pages.count * page_bytes, PROT_READ | PROT_WRITE);
			close_file(*file);
			return false;
		}
	}
	heap.for_files(
		pages, [&](Pages part, const File& old, std::uint64_t offset) { punch(old, offset, part.count * page_bytes); });
	heap.moved.add(pages, *file);
	return true;
}

bool wait_for_move(const void* address) {
	// A move may end between the fault and this call, so each thread also tries once again if
	// there was a move since its last fault in the heap.
	[[gnu::tls_model("initial-exec")]] static thread_local std::uint32_t seen = 0;
	if (!contains(address)) return false;
	const KeptErrno kept;
	bool waited = false;
	for (std::uint32_t ended = moving.ended.load(); moving.contains(address); ended = moving.ended.load()) {
		waited = true;
		futex(moving.ended, FUTEX_WAIT, ended);
	}
	const std::uint32_t now = moving.ended.load();
	if (now == seen && !waited) return false;
	seen = now;
	return true;
}

}  // namespace verbena::heap
