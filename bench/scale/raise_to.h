// SPDX-License-Identifier: Apache-2.0
// The highest value that several threads or processes have reached.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::scale {

// Raises `peak` to `value` if it is lower. It orders no other memory: a reader that needs the
// highest value of all reads it after something that does, as a count of those that are done.
inline void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
	std::uint64_t now = peak.load(std::memory_order_relaxed);
	while (now < value && !peak.compare_exchange_weak(now, value, std::memory_order_relaxed)) {}
}

}  // namespace verbena::scale
