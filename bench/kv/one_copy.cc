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
	const std::size_t values = std::min(different, std::max<std::size_t>(working_set_max / cell.size, 1));
	const std::size_t places = values + (cell.op == Op::set);
	const std::vector<char> from(values * cell.size, 'a');
	std::vector<char> to(places * cell.size, 'b');
	const std::size_t copies = (copied_bytes_min / to.size() + 1) * places;
	const Nanoseconds begun = monotonic_now();
	for (std::size_t copy = 0; copy < copies; ++copy) {
		std::memcpy(&to[copy % places * cell.size], &from[copy % values * cell.size], cell.size);
		asm volatile("" ::"r"(to.data()) : "memory");
	}
	const Nanoseconds took = std::max<Nanoseconds>(monotonic_now() - begun, 1);
	return static_cast<double>(copies * cell.size) * 1e9 / static_cast<double>(took);
}

}  // namespace verbena::kvbench
