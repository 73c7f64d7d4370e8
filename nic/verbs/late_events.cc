// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/late_events.h"

#include <algorithm>

#include "nic/engine/boundary.h"

namespace verbena::verbs {

bool LateEvents::hold(SoftCq& queue, Nanoseconds due) noexcept {
	const std::lock_guard lock(mutex_);
	return engine::attempt([&] { late_.push_back({&queue, due}); });
}

void LateEvents::drop(const SoftCq& queue) {
	const std::lock_guard lock(mutex_);
	std::erase_if(late_, [&](const Late& each) { return each.queue == &queue; });
}

void LateEvents::deliver(Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	std::erase_if(late_, [&](const Late& each) {
		if (each.due > now) return false;
		SoftChannel::of(each.queue->public_cq.channel).events.push(each.queue->cq());
		return true;
	});
}

Nanoseconds LateEvents::due() const {
	const std::lock_guard lock(mutex_);
	Nanoseconds first = never;
	for (const Late& each : late_) first = std::min(first, each.due);
	return first;
}

}  // namespace verbena::verbs
