// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/device_threads.h"

#include <algorithm>
#include <cstdint>
#include <ranges>

namespace verbena::rules {
namespace {

constexpr unsigned without_order = 1;  // a switch between fibers that orders nothing

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

void DeviceThreads::Use::end() noexcept {
	if (!thread_) return;
	ThreadSanitizer::found()->acquire(&thread_->order);
	thread_->busy = false;
	thread_ = nullptr;
}

DeviceThreads::Use DeviceThreads::begin(
	Access access, std::span<const queues::Segment> segments, const Stack& posted_from) {
	const ThreadSanitizer* const tsan = ThreadSanitizer::found();
	const auto free = std::ranges::find(threads_, false, &Thread::busy);
	if (!tsan || free == threads_.end() || posted_from.depth == 0) return {};
	if (!free->fiber) {
		free->fiber = tsan->create_fiber(0);
		tsan->set_fiber_name(free->fiber, "the RDMA device");
	}
	free->busy = true;
	tsan->release(&free->order);
	void* const program = tsan->current_fiber();
	tsan->switch_to_fiber(free->fiber, without_order);
	tsan->acquire(&free->order);
	const auto frames = posted_from.all();
	for (const std::uintptr_t frame : frames | std::views::drop(1) | std::views::reverse) tsan->enter(pointer(frame));
	for (const queues::Segment& segment : segments) {
		const std::size_t length = std::min<std::size_t>(segment.length, length_max);
		const auto record = access == Access::reads ? tsan->read_range : tsan->write_range;
		if (length) record(pointer(segment.address), length, pointer(frames.front()));
	}
	for (std::size_t i = 1; i < frames.size(); ++i) tsan->leave();
	tsan->release(&free->order);
	tsan->switch_to_fiber(program, without_order);
	return Use(*free);
}

}  // namespace verbena::rules
