// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked_advice.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "nic/engine/boundary.h"
#include "nic/presence/got.h"
#include "nic/verbs/checked.h"

namespace verbena::verbs {
namespace {

#ifndef MADV_DONTNEED_LOCKED
constexpr int MADV_DONTNEED_LOCKED = 24;  // linux/mman.h, since Linux 5.18
#endif

bool gives_back(int advice) {
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE || advice == MADV_DONTNEED_LOCKED;
}

int seen_madvise(void* address, std::size_t length, int advice) noexcept {
	const int error = madvise(address, length, advice);
	rules::Book* const book = checked();
	if (error == 0 && book && gives_back(advice)) {
		constexpr std::uint64_t page_bytes = 4096;
		const auto begin = reinterpret_cast<std::uint64_t>(address);
		book->gives_back(begin, (begin + length + page_bytes - 1) & ~(page_bytes - 1));
	}
	return error;
}

// The objects that are loaded now, by an address in the code of each.
struct Loaded {
	unsigned long long loads = 0;  // since the process began
	std::vector<const void*> code;
};

Loaded loaded_objects(bool with_code) {
	struct Visit {
		Loaded& loaded;
		bool with_code;
	};
	Loaded loaded;
	Visit visit{loaded, with_code};
	dl_iterate_phdr(
		[](dl_phdr_info* info, std::size_t, void* data) {
			const auto& [result, wants_code] = *static_cast<const Visit*>(data);
			result.loads = info->dlpi_adds;
			if (!wants_code) return 1;
			const std::span<const ElfW(Phdr)> segments(info->dlpi_phdr, info->dlpi_phnum);
			const auto found = std::ranges::find_if(
				segments, [](const ElfW(Phdr) & each) { return each.p_type == PT_LOAD && each.p_flags & PF_X; });
			if (found != segments.end())
				result.code.push_back(reinterpret_cast<const void*>(info->dlpi_addr + found->p_vaddr));
			return 0;
		},
		&visit);
	return loaded;
}

void redirect_all() {
	static std::atomic<unsigned long long> seen = 0;
	const unsigned long long loads = loaded_objects(false).loads;
	if (seen.exchange(loads) == loads) return;
	const link_map* const own = presence::object_of(reinterpret_cast<const void*>(seen_madvise));
	const presence::Redirection redirection{"madvise", reinterpret_cast<void*>(seen_madvise)};
	for (const void* const code : loaded_objects(true).code)
		if (const link_map* const object = presence::object_of(code); object && object != own)
			presence::redirect(*object, {&redirection, 1});
}

}  // namespace

void see_advice() noexcept { engine::attempt(redirect_all); }

}  // namespace verbena::verbs
