// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/segments.h"

#include <algorithm>

namespace verbena::kv {

std::byte* Segments::segment(std::size_t bytes) {
	Segment segment{.memory = channel::RegionMemory(bytes), .registration = {}};
	if (!segment.memory) return nullptr;
	std::byte* const at = segment.memory.data();
	if (pool_ != nullptr) {
		auto registered = pool_->adopt({at, bytes});
		if (!registered) return nullptr;
		segment.registration = std::move(*registered);
	}
	segments_.push_back(std::move(segment));
	return at;
}

channel::Buffer Segments::buffer_of(Value value, Item& item) {
	std::byte* const at = item.value();
	const auto segment = std::ranges::find_if(segments_, [at](const Segment& each) {
		return at >= each.memory.data() && at <= each.memory.data() + each.memory.size();
	});
	if (free_ == nullptr) free_ = &held_.emplace_back();
	auto* const held = static_cast<Held*>(std::exchange(free_, free_->next));
	held->owner = this;
	held->data = at;
	held->size = item.value_length;
	held->region = segment->registration.region();
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
