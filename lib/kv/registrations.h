// SPDX-License-Identifier: Apache-2.0
// Registrations: those of one piece of memory with the devices that give peers access to it, one
// for the pool of each device's transport.
//
// Threads: one, that of the pools' loop.
// Owns: the registrations, not the memory.
// Lifetime: dies before the memory and the pools.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lib/channel/memory.h"

namespace verbena::kv {

class Registrations {
public:
	// Registers the memory with this pool, which must not have it yet. Returns false if that is not
	// possible.
	bool add(channel::MemoryPool& pool, std::span<std::byte> memory) {
		auto registered = pool.adopt(memory);
		if (registered) all_.emplace_back(&pool, std::move(*registered));
		return registered.has_value();
	}
	void remove(const channel::MemoryPool& pool) {
		std::erase_if(all_, [&](const auto& each) { return each.first == &pool; });
	}
	// Returns the whole memory as a Buffer of this pool; null if it is not registered there.
	const channel::Buffer* at(const channel::MemoryPool& pool) const {
		for (const auto& each : all_)
			if (each.first == &pool) return &each.second;
		return nullptr;
	}

private:
	// A server has as many as devices, which are few.
	std::vector<std::pair<const channel::MemoryPool*, channel::Buffer>> all_;
};

}  // namespace verbena::kv
