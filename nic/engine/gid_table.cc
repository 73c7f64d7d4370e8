// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/gid_table.h"

#include <algorithm>

namespace verbena::engine {

namespace {

constexpr wire::Gid empty_slot{};

}  // namespace

int gid_order(const wire::Gid& gid) {
	if (wire::is_ipv4_mapped(gid)) return 0;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80 ? 2 : 1;
}

bool is_loopback(const wire::Gid& gid) {
	constexpr wire::Gid ipv6_loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
	return wire::is_ipv4_mapped(gid) ? gid[12] == 127 : gid == ipv6_loopback;
}

GidTable new_gid_table(std::vector<wire::Gid> addresses) {
	std::ranges::stable_sort(addresses, {}, gid_order);
	if (addresses.size() >= gid_table_length) addresses.resize(gid_table_length - 1);
	return addresses;
}

GidTable next_gid_table(const GidTable& before, const GidTable& now) {
	GidTable next = before;
	for (wire::Gid& slot : next)
		if (!find_gid(now, slot)) slot = empty_slot;
	for (const wire::Gid& gid : now) {
		if (gid == empty_slot || find_gid(next, gid)) continue;
		const auto empty = std::ranges::find(next, empty_slot);
		if (empty != next.end()) *empty = gid;
		else if (next.size() + 1 < gid_table_length) next.push_back(gid);
	}
	while (!next.empty() && next.back() == empty_slot) next.pop_back();
	return next;
}

const wire::Gid* gid_at(const GidTable& table, std::size_t index) {
	return index < table.size() && table[index] != empty_slot ? &table[index] : nullptr;
}

std::optional<std::uint8_t> find_gid(const GidTable& table, const wire::Gid& gid) {
	const auto at = std::ranges::find(table, gid);
	if (gid == empty_slot || at == table.end()) return std::nullopt;
	return static_cast<std::uint8_t>(at - table.begin());
}

std::optional<std::uint8_t> first_gid(const GidTable& table) {
	for (std::size_t i = 0; i < table.size(); ++i)
		if (gid_at(table, i)) return static_cast<std::uint8_t>(i);
	return std::nullopt;
}

}  // namespace verbena::engine
