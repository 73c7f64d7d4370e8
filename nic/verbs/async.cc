// Asynchronous events: ibv_get_async_event(3). Each received event is counted in its object, whose
// destruction waits until the program has acknowledged that many.
#include <cerrno>

#include "nic/verbs/objects.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

using transport::AsyncEvent;

void deliver_async_event(const transport::RaisedEvent& raised) {
	ibv_async_event event{};
	ibv_context* context;
	switch (raised.kind) {
		case AsyncEvent::cq_error:
			event.event_type = IBV_EVENT_CQ_ERR;
			event.element.cq = static_cast<SoftCq*>(raised.object)->cq();
			context = event.element.cq->context;
			break;
		case AsyncEvent::srq_limit_reached:
			event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
			event.element.srq = &static_cast<SoftSrq*>(raised.object)->public_srq;
			context = event.element.srq->context;
			break;
		default: {
			static constexpr ibv_event_type types[] = {IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
				IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED};
			event.event_type = types[static_cast<int>(raised.kind)];
			event.element.qp = static_cast<SoftQp*>(raised.object)->base();
			context = event.element.qp->context;
		}
	}
	SoftContext::of(context).async_events.push(event);
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
	// A fork's child shares the descriptor with its parent and would take the parent's event.
	if (SoftContext::of(context).dead) return errno = EIO, -1;
	engine::Engine& engine = *SoftContext::of(context).engine;
	if (!SoftContext::of(context).async_events.pop(*event, [&](int fd) { return engine.drive_until_readable(fd); }))
		return -1;
	switch (event->event_type) {
		case IBV_EVENT_CQ_ERR: {
			SoftCq& cq = SoftCq::of(event->element.cq);
			pthread_mutex_lock(&cq.public_cq.mutex);
			++cq.delivered.asynchronous;
			pthread_mutex_unlock(&cq.public_cq.mutex);
			break;
		}
		case IBV_EVENT_SRQ_LIMIT_REACHED: {
			SoftSrq& srq = SoftSrq::of(event->element.srq);
			pthread_mutex_lock(&srq.public_srq.mutex);
			++srq.delivered.asynchronous;
			pthread_mutex_unlock(&srq.public_srq.mutex);
			break;
		}
		default: {
			SoftQp& qp = SoftQp::of(event->element.qp);
			pthread_mutex_lock(&qp.base()->mutex);
			++qp.delivered.asynchronous;
			pthread_mutex_unlock(&qp.base()->mutex);
		}
	}
	return 0;
}

void ack_async_event(ibv_async_event* event) {
	const auto acknowledge = [](auto* object, std::uint32_t& completed) {
		pthread_mutex_lock(&object->mutex);
		++completed;
		pthread_cond_broadcast(&object->cond);
		pthread_mutex_unlock(&object->mutex);
	};
	switch (event->event_type) {
		case IBV_EVENT_CQ_ERR: return acknowledge(event->element.cq, event->element.cq->async_events_completed);
		case IBV_EVENT_SRQ_LIMIT_REACHED: return acknowledge(event->element.srq, event->element.srq->events_completed);
		default: return acknowledge(event->element.qp, event->element.qp->events_completed);
	}
}

}  // namespace verbena::verbs
