// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/mapped.h"

#include <sys/mman.h>

#include <cerrno>

namespace verbena::memory {
namespace {

constexpr std::uint64_t page_bytes = 4096;

// msync(2): MS_ASYNC writes nothing since Linux 2.6.19; ENOMEM says that a page is not mapped.
bool is_unmapped(std::uint64_t first_page, std::uint64_t last_page) {
	auto* const at = reinterpret_cast<void*>(first_page * page_bytes);
	return msync(at, (last_page - first_page + 1) * page_bytes, MS_ASYNC) != 0 && errno == ENOMEM;
}

}  // namespace

std::optional<std::uint64_t> first_unmapped(std::uint64_t begin, std::uint64_t end) {
	if (begin >= end) return std::nullopt;
	std::uint64_t first = begin / page_bytes, last = (end - 1) / page_bytes;
	if (!is_unmapped(first, last)) return std::nullopt;
	// The page is in [first, last].
	while (first < last) {
		const std::uint64_t middle = first + (last - first) / 2;
		if (is_unmapped(first, middle)) last = middle;
		else first = middle + 1;
	}
	return first * page_bytes;
}

}  // namespace verbena::memory
