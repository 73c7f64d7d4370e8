// SPDX-License-Identifier: Apache-2.0
// Asynchronous events: ibv_get_async_event(3). Each received event is counted in its object, whose
// destruction waits until the program has acknowledged that many. Events of ports and devices come
// from process.cc and are not counted.
#include <cerrno>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/engine/explain.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

using transport::AsyncEvent;

Element element_of(const ibv_async_event& event) {
	switch (event.event_type) {
		case IBV_EVENT_CQ_ERR: return Element::cq;
		case IBV_EVENT_SRQ_LIMIT_REACHED: return Element::srq;
		case IBV_EVENT_PORT_ACTIVE:
		case IBV_EVENT_PORT_ERR:
		case IBV_EVENT_GID_CHANGE:
		case IBV_EVENT_DEVICE_FATAL: return Element::port;
		default: return Element::qp;
	}
}

namespace {

// The program may drain the queue pair now, and then destroy it.
void show_completions(SoftCq& cq) {
	if (cq.gate) cq.gate->show(cq.queue->unpolled());
}

void explain_overrun(const queues::CompletionQueue& queue) {
	if (!engine::somebody_reads()) return;
	engine::Sentence s;
	s.add(
		"A completion queue of %u entries overran: all hold completions that were not polled, and a further one was "
		"lost (IBV_EVENT_CQ_ERR); poll more often, or create it with an entry for each request that can be under "
		"way on its queue pairs (ibv_create_cq(3))",
		queue.capacity());
	engine::publish(s);
}

}  // namespace

void deliver_async_event(const transport::RaisedEvent& raised) {
	ibv_async_event event{};
	ibv_context* context;
	switch (raised.kind) {
		case AsyncEvent::cq_error:
			event.event_type = IBV_EVENT_CQ_ERR;
			event.element.cq = static_cast<SoftCq*>(raised.object)->cq();
			explain_overrun(*static_cast<SoftCq*>(raised.object)->queue);
			if (checked()) engine::attempt([&] { checked()->overran(event.element.cq); });
			context = event.element.cq->context;
			break;
		case AsyncEvent::srq_limit_reached:
			event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
			event.element.srq = &static_cast<SoftSrq*>(raised.object)->public_srq;
			context = event.element.srq->context;
			break;
		default: {
			static constexpr ibv_event_type types[] = {IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
				IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_QP_FATAL};
			event.event_type = types[static_cast<int>(raised.kind)];
			event.element.qp = static_cast<SoftQp*>(raised.object)->base();
			context = event.element.qp->context;
			if (raised.kind == AsyncEvent::last_wqe_reached) show_completions(SoftCq::of(event.element.qp->recv_cq));
		}
	}
	SoftContext::of(context).async_events.push(event);
}

int get_async_event(engine::BlockingCall& call, ibv_context* context, ibv_async_event* event) {
	// A fork's child shares the descriptor with its parent and would take the parent's event.
	if (SoftContext::of(context).dead)
		return log::refuse(EIO, "ibv_get_async_event: the device was opened before fork(), by the parent"), -1;
	engine::Engine& engine = *SoftContext::of(context).engine;
	if (!SoftContext::of(context).async_events.pop(*event, engine, call)) return -1;
	switch (element_of(*event)) {
		case Element::port: break;
		case Element::cq: {
			SoftCq& cq = SoftCq::of(event->element.cq);
			pthread_mutex_lock(&cq.public_cq.mutex);
			++cq.delivered.asynchronous;
			pthread_mutex_unlock(&cq.public_cq.mutex);
			break;
		}
		case Element::srq: {
			SoftSrq& srq = SoftSrq::of(event->element.srq);
			pthread_mutex_lock(&srq.public_srq.mutex);
			++srq.delivered.asynchronous;
			pthread_mutex_unlock(&srq.public_srq.mutex);
			break;
		}
		case Element::qp: {
			SoftQp& qp = SoftQp::of(event->element.qp);
			pthread_mutex_lock(&qp.base()->mutex);
			++qp.delivered.asynchronous;
			pthread_mutex_unlock(&qp.base()->mutex);
		}
	}
	return 0;
}

void ack_async_event(ibv_async_event* event) {
	const auto acknowledge = [](auto* object, std::uint32_t& completed, Acknowledgements& acknowledged) {
		pthread_mutex_lock(&object->mutex);
		++completed;
		acknowledged.notify();
		pthread_mutex_unlock(&object->mutex);
	};
	switch (element_of(*event)) {
		case Element::port: return;
		case Element::cq: {
			ibv_cq* const cq = event->element.cq;
			return acknowledge(cq, cq->async_events_completed, SoftCq::of(cq).acknowledged);
		}
		case Element::srq: {
			ibv_srq* const srq = event->element.srq;
			return acknowledge(srq, srq->events_completed, SoftSrq::of(srq).acknowledged);
		}
		case Element::qp: {
			ibv_qp* const qp = event->element.qp;
			return acknowledge(qp, qp->events_completed, SoftQp::of(qp).acknowledged);
		}
	}
}

}  // namespace verbena::verbs
