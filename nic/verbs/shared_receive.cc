// Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3).
#include <cerrno>
#include <new>

#include "nic/verbs/objects.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
	const ibv_srq_attr& wanted = init->attr;
	if (wanted.max_wr == 0 || wanted.max_wr > static_cast<unsigned>(limits::srq_wr) ||
		wanted.max_sge > static_cast<unsigned>(limits::sge))
		return errno = EINVAL, nullptr;
	auto* srq = new (std::nothrow) SoftSrq;
	if (!srq) return errno = ENOMEM, nullptr;
	srq->queue = std::make_unique<queues::ReceiveQueue>(wanted.max_wr, std::max(wanted.max_sge, 1u));
	srq->queue->shared = true;
	srq->queue->user = srq;
	ibv_srq& s = srq->public_srq;
	s.context = pd->context;
	s.srq_context = init->srq_context;
	s.pd = pd;
	pthread_mutex_init(&s.mutex, nullptr);
	pthread_cond_init(&s.cond, nullptr);
	init->attr.max_wr = srq->queue->capacity();
	init->attr.max_sge = srq->queue->segments_max();
	++SoftPd::of(pd).users;
	return &s;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* init) {
	if ((init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && init->srq_type != IBV_SRQT_BASIC)
		return errno = EOPNOTSUPP, nullptr;
	if (!(init->comp_mask & IBV_SRQ_INIT_ATTR_PD)) return errno = EINVAL, nullptr;
	ibv_srq_init_attr basic{init->srq_context, init->attr};
	ibv_srq* srq = create_srq(init->pd, &basic);
	init->attr = basic.attr;
	return srq;
}

int modify_srq(ibv_srq* public_srq, ibv_srq_attr* attributes, int mask) {
	SoftSrq& srq = SoftSrq::of(public_srq);
	if (mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR)) return errno = EINVAL;
	if (mask & IBV_SRQ_MAX_WR && attributes->max_wr != srq.queue->capacity()) return errno = EOPNOTSUPP;
	if (mask & IBV_SRQ_LIMIT) {
		if (attributes->srq_limit > srq.queue->capacity()) return errno = EINVAL;
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
	*attributes = {srq.queue->capacity(), srq.queue->segments_max(), srq.queue->limit};
	return 0;
}

int destroy_srq(ibv_srq* public_srq) {
	SoftSrq& srq = SoftSrq::of(public_srq);
	if (srq.users) return errno = EBUSY;
	ibv_srq& s = srq.public_srq;
	SoftContext::of(s.context).async_events.remove_if([&](const ibv_async_event& event) {
		return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == public_srq;
	});
	pthread_mutex_lock(&s.mutex);
	while (s.events_completed != srq.delivered.asynchronous) pthread_cond_wait(&s.cond, &s.mutex);
	pthread_mutex_unlock(&s.mutex);
	--SoftPd::of(s.pd).users;
	delete &srq;
	return 0;
}

}  // namespace verbena::verbs
