// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/one_copy.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/time.h"

namespace verbena::kvbench {
namespace {

constexpr std::size_t copied_bytes_min = 64 << 20;
// Bounds the memory of a measurement with many clients.
constexpr std::size_t working_set_max = 256 << 20;

// Memory that begins with a page. Where a copy begins a few bytes behind its source, counted from
// the begin of a page, AMD's `rep movsb` takes twenty times as long; the heap gives such places.
class Pages {
public:
	Pages(std::size_t bytes, char content) : bytes_(static_cast<char*>(::operator new(bytes, alignment))) {
		std::memset(bytes_, content, bytes);
	}
	Pages(const Pages&) = delete;
	Pages& operator=(const Pages&) = delete;
	~Pages() { ::operator delete(bytes_, alignment); }
	char* at(std::size_t offset) const { return bytes_ + offset; }

private:
	static constexpr std::align_val_t alignment{4096};
	char* bytes_;
};

}  // namespace

double bytes_copied_per_second(const Cell& cell) {
	if (cell.size < copied_size_min) return 0;
	const std::size_t different = std::size_t{std::min(cell.window, keys_of_client)} * cell.clients;
	const std::size_t values = std::min(different, std::max<std::size_t>(working_set_max / cell.size, 1));
	const std::size_t places = values + (cell.op == Op::set);
	const Pages from(values * cell.size, 'a'), to(places * cell.size, 'b');
	const std::size_t copies = (copied_bytes_min / (places * cell.size) + 1) * places;
	const Nanoseconds begun = monotonic_now();
	for (std::size_t copy = 0; copy < copies; ++copy) {
		std::memcpy(to.at(copy % places * cell.size), from.at(copy % values * cell.size), cell.size);
		asm volatile("" ::"r"(to.at(0)) : "memory");
	}
	const Nanoseconds took = std::max<Nanoseconds>(monotonic_now() - begun, 1);
	return static_cast<double>(copies * cell.size) * 1e9 / static_cast<double>(took);
}

}  // namespace verbena::kvbench
