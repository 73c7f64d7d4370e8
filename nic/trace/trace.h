// SPDX-License-Identifier: Apache-2.0
// The trace of this process: whether there is one, and the functions that write to it.
//
// `verbena run --trace` names a folder in VERBENA_TRACE. The first verb of a process then makes a
// file with a ring of records there (record.h). Nothing is written or read until then, and without
// the variable every function here returns at once after one load.
//
// Threads: any; a signal handler too. No function but begin() waits or allocates. None changes
//   errno.
// Lifetime: from begin() to the end of the process. A fork's child has no trace until it calls
//   begin().
// Errors: a trace that cannot be made is reported once on standard error, and the program runs on.
// Invariants: the ring overwrites its oldest records; `FileHead::events` counts all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "nic/trace/record.h"

namespace verbena::trace {

namespace detail {
struct Ring;
inline constinit std::atomic<Ring*> ring = nullptr;
}  // namespace detail

// True from begin() on, if this process is traced.
inline bool on() { return detail::ring.load(std::memory_order_relaxed) != nullptr; }

// Makes the trace if VERBENA_TRACE asks for one and there is none yet. True: there is one now.
bool begin() noexcept;
// In the child of a fork: the ring is the parent's.
void abandon_after_fork() noexcept;

// Writes an event. The time, the thread and `more` are filled in; a time that is not 0 is kept.
void write(const Record&, std::span<const std::byte> bytes = {}, std::span<const std::byte> rest = {}) noexcept;
void write_text(const Record&, std::string_view text) noexcept;

// The bytes of a packet's payload that the trace is to hold; 0: no packets.
std::uint32_t packet_bytes() noexcept;

}  // namespace verbena::trace
