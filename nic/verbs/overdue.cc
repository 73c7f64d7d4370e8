// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/overdue.h"

#include <algorithm>

#include "nic/engine/explain.h"

namespace verbena::verbs {
namespace {

struct Queues {
	std::size_t count = 0;
	std::uint32_t unpolled = 0;  // completions of the queue that holds the most
	bool holder_is_armed = false;
	bool event_will_come = false;
};

Queues examine(SoftChannel& channel) {
	Queues found;
	const std::lock_guard lock(channel.queues_mutex);
	for (ibv_cq* const each : channel.queues) {
		SoftCq& cq = SoftCq::of(each);
		const std::uint32_t unpolled = cq.queue->unpolled();
		const queues::Armed armed = cq.engine->control([&](adapter::ChannelAdapter&) { return cq.queue->armed(); });
		// A queue that is armed for solicited events alone may hold other completions.
		found.event_will_come |= cq.event_queued.load(std::memory_order_acquire) ||
			armed == queues::Armed::solicited_only || (armed == queues::Armed::next && unpolled == 0);
		++found.count;
		if (unpolled <= found.unpolled) continue;
		found.unpolled = unpolled;
		found.holder_is_armed = armed != queues::Armed::no;
	}
	return found;
}

void explain_lost_wakeup(SoftChannel& channel) {
	const Queues queues = examine(channel);
	if (queues.count == 0 || queues.event_will_come) return;
	engine::Sentence s;
	s.add("ibv_get_cq_event has waited for 1 s, and no event will come: ");
	if (queues.unpolled == 0)
		s.add(
			"no completion queue of the channel is armed (there are %zu); call ibv_req_notify_cq before "
			"(ibv_req_notify_cq(3))",
			queues.count);
	else
		s.add(
			"a completion queue of the channel holds %u completion%s %s; after ibv_req_notify_cq poll until the queue "
			"is "
			"empty, and only then wait (ibv_get_cq_event(3))",
			queues.unpolled, queues.unpolled == 1 ? "" : "s",
			queues.holder_is_armed ? "that came before it was armed" : "and is not armed");
	engine::publish(s);
}

}  // namespace

void watch_for_lost_wakeup(engine::BlockingCall& call, ibv_comp_channel* channel) {
	if (!engine::somebody_reads() || call.is_explained) return;
	const Nanoseconds now = monotonic_now();
	if (call.began == 0) call.began = now;
	const Nanoseconds due = call.began + overdue_after;
	if (now < due) {
		call.timeout = std::min(call.timeout, due - now);
		return;
	}
	call.is_explained = true;
	explain_lost_wakeup(SoftChannel::of(channel));
}

void explain_unacknowledged(const char* verb, std::uint32_t completion_events, std::uint32_t asynchronous_events) {
	if (!engine::somebody_reads()) return;
	engine::Sentence s;
	s.add("%s has waited for 1 s, because the program has fetched events of the object and has not acknowledged them: ",
		verb);
	if (completion_events != 0) s.add("%u by ibv_get_cq_event; call ibv_ack_cq_events", completion_events);
	if (completion_events != 0 && asynchronous_events != 0) s.add("; ");
	if (asynchronous_events != 0) s.add("%u by ibv_get_async_event; call ibv_ack_async_event", asynchronous_events);
	s.add(" (%s(3))", verb);
	engine::publish(s);
}

}  // namespace verbena::verbs
