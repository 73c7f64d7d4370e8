// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3).
#include <cerrno>
#include <memory>

#include "base/log.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/overdue.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
	const ibv_srq_attr& wanted = init->attr;
	const profile::Limits& most = device_limits();
	if (!most.srq)
		return refuse_by_profile(EOPNOTSUPP, "ibv_create_srq: the device has no shared receive queues"), nullptr;
	if (wanted.max_wr == 0) return log::refuse(EINVAL, "ibv_create_srq: max_wr is 0"), nullptr;
	if (wanted.max_wr > most.max_srq_wr)
		return refuse_figure("ibv_create_srq", "max_wr", wanted.max_wr, most.max_srq_wr), nullptr;
	if (wanted.max_sge > most.max_srq_sge)
		return refuse_figure("ibv_create_srq", "max_sge", wanted.max_sge, most.max_srq_sge), nullptr;
	auto srq = std::make_unique<SoftSrq>();
	srq->queue = std::make_unique<queues::ReceiveQueue>(wanted.max_wr, std::max(wanted.max_sge, 1u));
	srq->queue->shared = true;
	srq->queue->user = srq.get();
	ibv_srq& s = srq->public_srq;
	s.context = pd->context;
	s.srq_context = init->srq_context;
	s.pd = pd;
	pthread_mutex_init(&s.mutex, nullptr);
	pthread_cond_init(&s.cond, nullptr);
	init->attr.max_wr = srq->queue->capacity();
	init->attr.max_sge = srq->queue->segments_max();
	++SoftPd::of(pd).users;
	return &srq.release()->public_srq;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* init) {
	if (init->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		return log::refuse(EOPNOTSUPP, "ibv_create_srq_ex: comp_mask 0x%x has unknown bits", init->comp_mask), nullptr;
	if ((init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && init->srq_type != IBV_SRQT_BASIC)
		return log::refuse(EOPNOTSUPP, "ibv_create_srq_ex: srq_type %d is not supported, only IBV_SRQT_BASIC",
				   static_cast<int>(init->srq_type)),
			   nullptr;
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return log::refuse(EINVAL, "ibv_create_srq_ex: comp_mask needs IBV_SRQ_INIT_ATTR_PD"), nullptr;
	ibv_srq_init_attr basic{init->srq_context, init->attr};
	ibv_srq* srq = create_srq(init->pd, &basic);
	init->attr = basic.attr;
	return srq;
}

int modify_srq(ibv_srq* public_srq, ibv_srq_attr* attributes, int mask) {
	SoftSrq& srq = SoftSrq::of(public_srq);
	if (mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR))
		return log::refuse(EINVAL, "ibv_modify_srq: mask 0x%x has unknown bits", static_cast<unsigned>(mask));
	if (mask & IBV_SRQ_MAX_WR && attributes->max_wr != srq.queue->capacity())
		return log::refuse(EOPNOTSUPP, "ibv_modify_srq: a shared receive queue cannot be resized");
	if (mask & IBV_SRQ_LIMIT) {
		if (attributes->srq_limit > srq.queue->capacity())
			return log::refuse(EINVAL, "ibv_modify_srq: srq_limit %u is above the queue's max_wr %u",
				attributes->srq_limit, srq.queue->capacity());
		SoftContext::of(public_srq->context).engine->control([&](adapter::ChannelAdapter& adapter) {
			srq.queue->limit = attributes->srq_limit;
			// A limit above the number of posted receives is reached at once.
			if (srq.queue->limit_reached()) adapter.context().raise(transport::AsyncEvent::srq_limit_reached, &srq);
			return 0;
		});
	}
	return 0;
}

int query_srq(ibv_srq* public_srq, ibv_srq_attr* attributes) {
	const SoftSrq& srq = SoftSrq::of(public_srq);
	// A pass turns the limit off when it is reached.
	const std::uint32_t limit = SoftContext::of(public_srq->context).engine->control([&](adapter::ChannelAdapter&) {
		return srq.queue->limit;
	});
	*attributes = {srq.queue->capacity(), srq.queue->segments_max(), limit};
	return 0;
}

int destroy_srq(engine::BlockingCall& call, ibv_srq* public_srq) {
	SoftSrq& srq = SoftSrq::of(public_srq);
	if (srq.users) return log::refuse(EBUSY, "ibv_destroy_srq: a queue pair uses the shared receive queue");
	ibv_srq& s = srq.public_srq;
	SoftContext::of(s.context).async_events.remove_if([&](const ibv_async_event& event) {
		return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == public_srq;
	});
	const auto all = [&] { return s.events_completed == srq.delivered.asynchronous; };
	const auto overdue = [&] {
		explain_unacknowledged("ibv_destroy_srq", 0, srq.delivered.asynchronous - s.events_completed);
	};
	if (!srq.acknowledged.reached(s.mutex, call, all, overdue)) return 0;
	--SoftPd::of(s.pd).users;
	dispose(srq);
	return 0;
}

}  // namespace verbena::verbs
