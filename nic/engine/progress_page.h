// SPDX-License-Identifier: Apache-2.0
// The page on which a process publishes whether one of its threads drives its engine, or must be
// woken. Every peer reads it.
//
//  - armed_epoch is odd while the process sleeps (ARMED), even while a thread drives the engine
//    (BUSY). A peer publishes its slots, fences, and reads it; if it is odd, the peer rings the
//    doorbell. It is stored only when the state changes, in a cache line of its own, so that
//    producers keep it cached.
//  - request_epoch is odd while the process is BUSY and wants a kick all the same for each request,
//    but not for acknowledgements (watch.h).
//  - passes counts engine passes. While BUSY, a waiter that sees neither its ring nor this counter
//    move knows that the program has stopped polling, and kicks.
//  - cpu is the processor of the last pass. If it is the reader's own, the reader's spinning only
//    delays the peer.
//
// Threads: one writing process, any number of reading ones; every field is atomic or constant.
// Owns: the page lies in a sealed memfd that peers cannot map for writing.
// Errors: a peer reads the page and never trusts it. A page with false values costs its owner kicks
//   or latency, and no other process anything.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "nic/engine/sealed_memory.h"

namespace verbena::engine {

struct ProgressPage {
	static constexpr std::uint32_t magic_value = 0x76'62'70'67;  // "vbpg"
	static constexpr std::uint32_t version_value = 4;

	std::uint32_t magic;
	std::uint32_t version;
	pid_t pid;  // in the owner's own pid namespace
	std::atomic<pid_t> progress_tid;  // the progress thread; 0 until it runs
	// Counts the rdma_cm services that the process has released, just before each is released.
	// While this has not changed, a service that was found here is still here.
	std::atomic<std::uint32_t> services_released;
	// The processor to which a peer moved the progress thread last; -1: none has.
	std::atomic<int> moved_to;
	// Not 0: queue pairs and connections of this process take UDP also on this host, because its
	// packets meet faults (nic/faults). Links carry only packets that reached the wrong process.
	std::atomic<std::uint32_t> wire_only;

	alignas(128) std::atomic<std::uint32_t> armed_epoch;
	std::atomic<std::uint32_t> request_epoch;

	alignas(128) std::atomic<std::uint64_t> passes;
	std::atomic<std::uint32_t> cpu;

	bool armed() const { return armed_epoch.load(std::memory_order_relaxed) & 1; }
};
static_assert(sizeof(ProgressPage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

// Creates this process's own page: BUSY, with no pass made. Error: an errno value.
std::expected<SealedMemory<ProgressPage>, int> create_progress_page();

// Maps a peer's page, read-only. EPROTO: `fd` is something else, or another version.
std::expected<Mapped<const ProgressPage>, int> map_progress_page(int fd, Seals seals = Seals::if_possible);

}  // namespace verbena::engine
