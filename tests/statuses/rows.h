// SPDX-License-Identifier: Apache-2.0
// The table: in each row, two sides make a mistake, and both must see the listed result.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "side.h"

// Memory of the target, as the source addresses it.
struct Aim {
	std::uint64_t address = 0;
	std::uint32_t rkey = 0;
};
// The whole region, from its beginning.
inline Aim whole(const ibv_mr& mr) { return {reinterpret_cast<std::uint64_t>(mr.addr), mr.rkey}; }

struct Row {
	const char* name;
	Setup setup;
	Aim (*target)(Side&);  // the target's part, which comes first; returns the memory to address
	void (*source)(Side&, Aim);  // the source's part
	Seen source_sees, target_sees;
	bool target_ends = false;  // the target's process ends before the source begins
};

// Grouped by the party that makes the mistake.
std::span<const Row> rows_of_connections();
std::span<const Row> rows_of_mappings();
std::span<const Row> rows_of_unreliable();
std::span<const Row> rows_of_events();
