// SPDX-License-Identifier: Apache-2.0
// The GID table of a device: the addresses of its interface, each at an index that programs keep.
//
// Threads: pure functions.
// Invariants: a GID keeps its index while the interface has the address. The slot of an address
//   that is gone is empty (all zero), and the next address to come takes the first empty slot, as
//   in the kernel's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nic/wire/flow.h"

namespace verbena::engine {

// gid_tbl_len of ibv_query_port(). The last entry is always empty, because programs look for one.
inline constexpr std::uint32_t gid_table_length = 256;

// The slots up to the last GID, at most gid_table_length - 1. An empty slot is all zero.
using GidTable = std::vector<wire::Gid>;

// The position of a GID's kind in a new table. 0: IPv4, 1: global IPv6, 2: link-local.
int gid_order(const wire::Gid& gid);

// Whether the GID is in 127.0.0.0/8 or ::1, which are this host on every host.
bool is_loopback(const wire::Gid& gid);

// A table of these addresses: IPv4, then global IPv6, then link-local, so that GID 0 is an address
// that works. The addresses that do not fit are left out.
GidTable new_gid_table(std::vector<wire::Gid> addresses);

// The table that follows `before` when the interface has the addresses of the new table `now`.
GidTable next_gid_table(const GidTable& before, const GidTable& now);

// The GID at an index; null if there is none.
const wire::Gid* gid_at(const GidTable& table, std::size_t index);
// The index of a GID that is not all zero.
std::optional<std::uint8_t> find_gid(const GidTable& table, const wire::Gid& gid);
// The lowest index with a GID.
std::optional<std::uint8_t> first_gid(const GidTable& table);

}  // namespace verbena::engine
