// SPDX-License-Identifier: Apache-2.0
// Remotes: the end of unused paths, and the memory of those that stay.
#include <algorithm>

#include "nic/engine/remotes.h"

namespace verbena::engine {

namespace {

constexpr Nanoseconds retired_pause = 1'000'000;  // from one try to free retired paths to the next
// The memory that paths may touch before the oldest of them is trimmed. With what all of them keep
// after that, and with their objects, they stay below 32 MB.
constexpr std::size_t touched_bytes_max = 6 << 20;

}  // namespace

Nanoseconds Remotes::upkeep_due() const {
	Nanoseconds due = std::min({paths_.next_sweep(), relay_.retry_due(), room_question_due_});
	for (const Remote* const remote : unsettled_) due = std::min(due, remote->due());
	return retired_.empty() ? due : std::min(due, adapter_.context().now + retired_pause);
}

// The outlets of all queue pairs, in the order of their addresses.
std::vector<const void*> Remotes::outlets_of_queue_pairs() {
	std::vector<const void*> outlets;
	adapter_.queue_pairs().for_each([&](transport::QueuePair& qp) {
		if (qp.outlet && !qp.outlet->lossless) outlets.push_back(qp.outlet);
	});
	std::ranges::sort(outlets);
	outlets.erase(std::ranges::unique(outlets).begin(), outlets.end());
	return outlets;
}

bool Remotes::is_referenced(Remote& path, std::span<const void* const> outlets) {
	return !path.is_at_rest() || std::ranges::binary_search(outlets, static_cast<const void*>(&path.outlet));
}

// No caller can find a retired path. Address handles and threads that set up a queue pair may have
// found it before: they look again, because the count of retired links has changed.
void Remotes::retire(std::vector<std::unique_ptr<Remote>> paths) {
	if (paths.empty()) return;
	last_from_ = nullptr;
	std::ranges::move(paths, std::back_inserter(retired_));
	neighbours_.count_retired();
}

void Remotes::upkeep(Nanoseconds now, const std::function<void(const transport::Outlet&)>& freed) {
	if (udp_) relay_.retry(*udp_, now);
	repeat_room_questions(now);
	if (now >= paths_.next_sweep() && retired_.size() < retired_max) {
		renew_room_questions(now);
		const auto referenced = outlets_of_queue_pairs();
		retire(paths_.retire_idle(now, [&](Remote& path) { return is_referenced(path, referenced); }));
	}
	if (retired_.empty()) return;
	const auto referenced = neighbours_.outlets_of_datagrams();
	if (!referenced) return;  // a thread posts; the next call tries again
	std::erase_if(retired_, [&](const std::unique_ptr<Remote>& path) {
		if (!path->is_at_rest() || std::ranges::find(*referenced, &path->outlet) != referenced->end()) return false;
		std::erase(unsettled_, path.get());
		if (path->counted_bytes) std::erase(touched_, path.get());
		touched_bytes_ -= path->counted_bytes;
		freed(path->outlet);
		return true;
	});
}

// A path that begins to be used, or that carries a larger burst than before.
void Remotes::note_memory(Remote& remote) {
	if (remote.counted_bytes == 0) touched_.push_back(&remote);
	touched_bytes_ += remote.touched_bytes() - remote.counted_bytes;
	remote.counted_bytes = remote.touched_bytes();
	for (std::size_t left = touched_.size(); touched_bytes_ > touched_bytes_max && left > 1; --left) {
		Remote* const oldest = touched_.front();
		touched_.erase(touched_.begin());
		if (oldest == &remote || !oldest->is_at_rest()) {
			touched_.push_back(oldest);
			continue;
		}
		oldest->trim();
		touched_bytes_ -= oldest->counted_bytes;
		oldest->counted_bytes = 0;
	}
}

}  // namespace verbena::engine
