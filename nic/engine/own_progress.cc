// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/own_progress.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "base/random.h"
#include "nic/engine/affinity.h"
#include "nic/engine/eventfd.h"

namespace verbena::engine {

OwnProgress::OwnProgress(SealedMemory<ProgressPage> page, SealedMemory<memory::RightsTable> rights, Descriptor doorbell,
	Mapped<ProgressPage> spare)
	: page_(std::move(page)),
	  rights_(std::move(rights)),
	  spare_(std::move(spare)),
	  doorbell_(std::move(doorbell)),
	  token_(secure_random<std::uint64_t>()) {}

SealedMemory<memory::RightsTable> create_rights_table() {
	// A file beyond the limit would bring the program a SIGXFSZ.
	rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < sizeof(memory::RightsTable)) return {};
	auto table = create_sealed<memory::RightsTable>("verbena-rights", Writers::this_mapping, 0, WithoutMemfd::none);
	if (!table) return {};
	table->object->magic = memory::RightsTable::magic_value;
	table->object->version = memory::RightsTable::version_value;
	return std::move(*table);
}

std::expected<OwnProgress, int> OwnProgress::create() {
	auto page = create_progress_page();
	if (!page) return std::unexpected(page.error());
	void* spare = mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (spare == MAP_FAILED) return std::unexpected(errno);
	Mapped<ProgressPage> owned_spare(static_cast<ProgressPage*>(spare));
	Descriptor doorbell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (!doorbell) return std::unexpected(errno);
	return OwnProgress(std::move(*page), create_rights_table(), std::move(doorbell), std::move(owned_spare));
}

namespace {

// Makes an epoch odd. It may have been odd before: a peer kicks once per epoch, so a new one makes
// it kick again.
void begin_epoch(std::atomic<std::uint32_t>& epoch) {
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) | 1, std::memory_order_seq_cst);
	// The caller reads the rings after peers can see the epoch; Engine::deliver_touched() has the
	// peers' half of this.
	std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

void OwnProgress::arm() { begin_epoch(page().armed_epoch); }

void OwnProgress::ask_for_requests() { begin_epoch(page().request_epoch); }

void OwnProgress::stop_asking() {
	std::atomic<std::uint32_t>& epoch = page().request_epoch;
	const std::uint32_t now = epoch.load(std::memory_order_relaxed);
	if (now & 1) epoch.store(now + 1, std::memory_order_relaxed);
}

void OwnProgress::disarm() {
	std::atomic<std::uint32_t>& epoch = page().armed_epoch;
	epoch.store((epoch.load(std::memory_order_relaxed) + 1) & ~1u, std::memory_order_release);
	ring();
}

void OwnProgress::ring() { signal_eventfd(doorbell_.get()); }

void OwnProgress::drain() {
	if (drain_eventfd(doorbell_.get()) < ring_after_move) [[likely]]
		return;
	page().moved_to.store(
		only_processor(page().progress_tid.load(std::memory_order_relaxed)), std::memory_order_relaxed);
}

void OwnProgress::abandon_after_fork() {
	doorbell_ = Descriptor();
	page_.fd = Descriptor();
	rights_.fd = Descriptor();
	forget_mapping(rights_.object);
	forget_mapping(page_.object);
	page_.object = std::move(spare_);
}

}  // namespace verbena::engine
