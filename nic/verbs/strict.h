// SPDX-License-Identifier: Apache-2.0
// A strict NIC gives what the program has asked for and nothing more, as some devices do, so that a
// program which works by luck fails: queues have exactly the size that was asked for, an lkey
// cannot be used as an rkey, and ibv_wr_post(3) has the operations of send_ops_flags alone. A
// checker and an adversary make the NIC strict.
//
// Threads: any. be_strict() comes before the first object.
#pragma once

#include <atomic>

namespace verbena::verbs {

namespace detail {
inline constinit std::atomic<bool> strict = false;
}

inline bool is_strict() noexcept { return detail::strict.load(std::memory_order_relaxed); }
inline void be_strict() noexcept { detail::strict.store(true, std::memory_order_relaxed); }

}  // namespace verbena::verbs
