// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/mapping_mark.h"

#include <optional>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::rules {
namespace {

constexpr std::uint64_t page_bytes = 4096;

std::optional<int> policy_at(std::uint64_t address) {
	int policy = 0;
	if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, address, MPOL_F_ADDR) != 0) return std::nullopt;
	return policy;
}

}  // namespace

bool mark_mapping(std::uint64_t begin, std::uint64_t length) {
	if (length == 0) return false;
	for (const std::uint64_t address : {begin, begin + length - 1}) {
		const std::optional<int> policy = policy_at(address);
		if (policy != MPOL_DEFAULT && policy != MPOL_LOCAL) return false;
	}
	const std::uint64_t first = begin & ~(page_bytes - 1);
	if (syscall(SYS_mbind, first, begin + length - first, MPOL_LOCAL, nullptr, 0, 0) != 0) return false;
	// The policy of a file in memory belongs to the file.
	return policy_at(begin) == MPOL_LOCAL;
}

bool lacks_mark(std::uint64_t address) { return policy_at(address) == MPOL_DEFAULT; }

}  // namespace verbena::rules
