// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/pinned_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "nic/verbs/limits.h"

namespace verbena::verbs {
namespace {

constexpr std::uint64_t page_bytes = 4096;

constinit std::atomic<std::uint64_t> pinned_pages{0};

std::uint64_t limit_bytes() {
	rlimit limit{};
	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
	return limit.rlim_cur;
}

// Also true in a container whose root has the capability in a user namespace alone, where the
// kernel would refuse.
bool may_lock_without_limit() {
	__user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	__user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

}  // namespace

std::optional<PinnedMemory> PinnedMemory::pin(std::uint64_t address, std::size_t length) {
	if (device_limits().profile.empty() || length == 0) return PinnedMemory();
	const std::uint64_t pages = (address + length - 1) / page_bytes - address / page_bytes + 1;
	PinnedMemory pinned(pages);
	const std::uint64_t all = pinned_pages.fetch_add(pages, std::memory_order_relaxed) + pages;
	if (all > limit_bytes() / page_bytes && !may_lock_without_limit()) return std::nullopt;
	return pinned;
}

PinnedMemory::~PinnedMemory() {
	if (pages_ != 0) pinned_pages.fetch_sub(pages_, std::memory_order_relaxed);
}

int refuse_pinned(const char* verb, std::size_t length) {
	const std::uint64_t kib = pinned_pages.load(std::memory_order_relaxed) * page_bytes >> 10;
	return refuse_by_profile(ENOMEM,
		"%s: the device pins registered memory, and %zu bytes more than the %llu KiB that are registered go beyond "
		"RLIMIT_MEMLOCK, which is %llu KiB; raise it: 'ulimit -l unlimited', LimitMEMLOCK=infinity in a systemd unit, "
		"--ulimit memlock=-1 for a container",
		verb, length, static_cast<unsigned long long>(kib), static_cast<unsigned long long>(limit_bytes() >> 10));
}

}  // namespace verbena::verbs
