// A mistake that two sides make together, and what both must see of it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "side.h"

// Memory of the target, as the source will name it.
struct Aim {
	std::uint64_t address = 0;
	std::uint32_t rkey = 0;
};
inline Aim whole(const ibv_mr& mr) { return {reinterpret_cast<std::uint64_t>(mr.addr), mr.rkey}; }

struct Row {
	const char* name;
	Setup setup;
	Aim (*target)(Side&);
	void (*source)(Side&, Aim);
	Seen source_sees, target_sees;
	bool target_ends = false;  // its process, before the source begins
};

std::span<const Row> all_rows();
