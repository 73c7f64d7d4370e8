// What a process publishes about its progress, for every peer to read: whether somebody drives its engine, or must be
// woken.
//
// One page in a sealed memfd, written by its owner alone (peers cannot even map it for writing) and mapped read-only by
// each peer. A peer reads it, never trusts it: a page that lies costs its owner kicks or latency and nobody else
// anything.
//
//  - armed_epoch is odd while the process sleeps (ARMED: publish, fence, then look here; odd means ring the doorbell)
//  and even while
//    a thread drives the engine (BUSY). It is stored only when that changes, in a line of its own, so that producers
//    keep it cached.
//  - passes counts engine passes. While BUSY, a waiter that sees neither its ring nor this counter move knows that the
//  program has
//    stopped polling, and kicks.
//  - cpu is where the last pass ran: if it is the reader's own, spinning can only delay the peer.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "nic/engine/sealed_memory.h"

namespace verbena::engine {

struct ProgressPage {
	static constexpr std::uint32_t magic_value = 0x76'62'70'67;  // "vbpg"
	static constexpr std::uint32_t version_value = 2;

	std::uint32_t magic;
	std::uint32_t version;
	pid_t pid;  // as its owner sees itself
	std::atomic<pid_t> progress_tid;  // 0 until the thread runs
	// Counts the services of rdma_cm that the process has given up, before it does: as long as this stands still,
	// whoever found one here will find it here.
	std::atomic<std::uint32_t> services_released;

	alignas(128) std::atomic<std::uint32_t> armed_epoch;

	alignas(128) std::atomic<std::uint64_t> passes;
	std::atomic<std::uint32_t> cpu;

	bool armed() const { return armed_epoch.load(std::memory_order_relaxed) & 1; }
};
static_assert(sizeof(ProgressPage) <= 4096 && std::atomic<std::uint64_t>::is_always_lock_free);

// This process's own page, BUSY, with no pass made.
std::expected<SealedMemory<ProgressPage>, int> create_progress_page();

// A peer's. EPROTO: something else.
std::expected<Mapped<const ProgressPage>, int> map_progress_page(int fd);

}  // namespace verbena::engine
