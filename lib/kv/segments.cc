// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/segments.h"

#include <algorithm>

namespace verbena::kv {

std::byte* Segments::segment(std::size_t bytes) {
	Segment segment{.memory = channel::RegionMemory(bytes), .registrations = {}};
	if (!segment.memory) return nullptr;
	for (channel::MemoryPool* const pool : pools_)
		if (!segment.registrations.add(*pool, segment.bytes())) return nullptr;
	segments_.push_back(std::move(segment));
	return segments_.back().memory.data();
}

bool Segments::share(channel::MemoryPool& pool) {
	for (Segment& each : segments_) {
		if (each.registrations.add(pool, each.bytes())) continue;
		for (Segment& before : segments_) before.registrations.remove(pool);
		return false;
	}
	pools_.push_back(&pool);
	return true;
}

channel::Buffer Segments::buffer_of(Value value, Item& item, const channel::MemoryPool& pool) {
	std::byte* const at = item.value();
	const auto segment = std::ranges::find_if(segments_, [at](const Segment& each) {
		return at >= each.memory.data() && at <= each.memory.data() + each.memory.size();
	});
	if (free_ == nullptr) free_ = &held_.emplace_back();
	auto* const held = static_cast<Held*>(std::exchange(free_, free_->next));
	held->owner = this;
	held->data = at;
	held->size = item.value_length;
	held->region = segment->registrations.at(pool)->region();
	held->value = std::move(value);
	++in_use_;
	return channel::Buffer(held, held->size);
}

void Segments::give_back(channel::Block* block) {
	auto* const held = static_cast<Held*>(block);
	held->value = {};
	held->next = std::exchange(free_, held);
	--in_use_;
}

}  // namespace verbena::kv
