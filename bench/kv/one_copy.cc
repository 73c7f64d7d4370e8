// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/one_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/time.h"

namespace verbena::kvbench {
namespace {

constexpr std::size_t copied_bytes_min = 64 << 20;
// Bounds the memory of a measurement with many clients.
constexpr std::size_t working_set_max = 256 << 20;

}  // namespace

double bytes_copied_per_second(const Cell& cell) {
	if (cell.size < copied_size_min) return 0;
	const std::size_t different = std::size_t{std::min(cell.window, keys_of_client)} * cell.clients;
	const std::size_t blocks = std::min(different, std::max<std::size_t>(working_set_max / cell.size, 1));
	const std::vector<char> from(blocks * cell.size, 'a');
	std::vector<char> to(blocks * cell.size, 'b');
	const std::size_t rounds = copied_bytes_min / to.size() + 1;
	const Nanoseconds begun = monotonic_now();
	for (std::size_t round = 0; round < rounds; ++round)
		for (std::size_t at = 0; at < to.size(); at += cell.size) {
			std::memcpy(to.data() + at, from.data() + at, cell.size);
			asm volatile("" ::"r"(to.data()) : "memory");
		}
	const Nanoseconds took = std::max<Nanoseconds>(monotonic_now() - begun, 1);
	return static_cast<double>(rounds * to.size()) * 1e9 / static_cast<double>(took);
}

}  // namespace verbena::kvbench
