#include "nic/engine/own_progress.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/random.h"

namespace verbena::engine {

OwnProgress::OwnProgress(SealedMemory<ProgressPage> page, Descriptor doorbell)
	: page_(std::move(page)), doorbell_(std::move(doorbell)), token_(secure_random<std::uint64_t>()) {}

std::expected<OwnProgress, int> OwnProgress::create() {
	auto page = create_progress_page();
	if (!page) return std::unexpected(page.error());
	Descriptor doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (!doorbell) return std::unexpected(errno);
	return OwnProgress(std::move(*page), std::move(doorbell));
}

void OwnProgress::arm() {
	std::atomic<std::uint32_t>& epoch = page().armed_epoch;
	// Odd before and after. A peer kicks once per epoch, so a new epoch makes it kick again.
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) | 1, std::memory_order_seq_cst);
	// The caller reads the rings after peers can see ARMED; Engine::deliver_touched() has the
	// peers' half of this.
	std::atomic_thread_fence(std::memory_order_seq_cst);
}

void OwnProgress::disarm() {
	std::atomic<std::uint32_t>& epoch = page().armed_epoch;
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) & ~1u, std::memory_order_release);
	ring();
}

void OwnProgress::ring() {
	const std::uint64_t one = 1;
	// EAGAIN: the counter is full, so the doorbell rings already.
	[[maybe_unused]] const ssize_t written = write(doorbell_.get(), &one, sizeof one);
}

void OwnProgress::drain() {
	std::uint64_t count;
	[[maybe_unused]] const ssize_t n = read(doorbell_.get(), &count, sizeof count);
}

void OwnProgress::abandon_after_fork() {
	doorbell_ = Descriptor();
	page_.fd = Descriptor();
	forget_mapping(page_.object);
	void* page = mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(page != MAP_FAILED, "a page of memory");
	page_.object.reset(static_cast<ProgressPage*>(page));
}

}  // namespace verbena::engine
