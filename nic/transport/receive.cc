// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/receive.h"

#include <algorithm>

#include "nic/memory/guarded_copy.h"

namespace verbena::transport {

using queues::Status;

namespace {

// In entries. Buffers of a shared queue are seldom in the cache, because many queue pairs take
// turns.
constexpr std::uint32_t prefetch_distance = 4;

}  // namespace

Status scatter(Context& context, QueuePair& qp, queues::ReceiveWqe& wqe, std::uint32_t offset, const std::byte* from,
	std::uint32_t length) {
	if (length > wqe.length - offset) return Status::local_length;
	for (queues::Segment* segment = wqe.segments(); length; ++segment) {
		if (offset >= segment->length) {
			offset -= segment->length;
			continue;
		}
		const std::uint32_t n = std::min(length, segment->length - offset);
		std::byte* to = context.keys.resolve(
			qp.receive_cache, segment->lkey, segment->address + offset, n, memory::local_use | memory::local_write, qp);
		if (!to || !memory::guarded_copy(to, from, n)) return Status::local_protection;
		from += n;
		length -= n;
		offset = 0;
	}
	return Status::success;
}

void pop_receive(Context& context, QueuePair& qp) {
	qp.receive_queue->pop();
	if (qp.receive_queue->shared) qp.receive_queue->prefetch(prefetch_distance);
	if (qp.receive_queue->shared && qp.receive_queue->limit_reached())
		context.raise(AsyncEvent::srq_limit_reached, qp.receive_queue->user);
}

}  // namespace verbena::transport
