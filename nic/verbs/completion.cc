// SPDX-License-Identifier: Apache-2.0
// Completion queues, channels and their events.
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/overdue.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/strict.h"

namespace verbena::verbs {

ibv_comp_channel* create_comp_channel(ibv_context* context) {
	auto channel = std::make_unique<SoftChannel>();
	if (const int error = channel->events.error())
		return log::refuse(error, "ibv_create_comp_channel: no descriptor for the events: %s", std::strerror(error)),
			   nullptr;
	channel->public_channel.context = context;
	channel->public_channel.fd = channel->events.fd();
	++SoftContext::of(context).users;
	return &channel.release()->public_channel;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
	if (SoftChannel::of(channel).users)
		return log::refuse(EBUSY, "ibv_destroy_comp_channel: a completion queue uses the channel");
	--SoftContext::of(channel->context).users;
	dispose(SoftChannel::of(channel));
	return 0;
}

namespace {

ibv_cq* make_cq(
	ibv_context* context, std::uint32_t entries, void* cq_context, ibv_comp_channel* channel, std::uint32_t vector) {
	if (entries == 0) return log::refuse(EINVAL, "ibv_create_cq: cqe 0 is not in 1 to max_cqe"), nullptr;
	if (const std::uint32_t most = device_limits().max_cqe; entries > most)
		return refuse_figure("ibv_create_cq", "cqe", entries, most), nullptr;
	if (vector >= static_cast<std::uint32_t>(context->num_comp_vectors))
		return log::refuse(EINVAL, "ibv_create_cq: comp_vector %u is not below num_comp_vectors %d", vector,
				   context->num_comp_vectors),
			   nullptr;
	auto cq = std::make_unique<SoftCq>();
	cq->engine = SoftContext::of(context).engine;
	cq->queue = std::make_unique<queues::CompletionQueue>(entries);
	cq->queue->user = cq.get();
	if (channel) {
		SoftChannel& soft_channel = SoftChannel::of(channel);
		{
			const std::lock_guard lock(soft_channel.queues_mutex);
			soft_channel.queues.reserve(soft_channel.queues.size() + 1);
		}
		soft_channel.events.reserve_place();
	}
	ibv_cq_ex& c = cq->public_cq;
	c.context = context;
	c.channel = channel;
	c.cq_context = cq_context;
	c.cqe = static_cast<int>(is_strict() ? entries : cq->queue->capacity());
	pthread_mutex_init(&c.mutex, nullptr);
	pthread_cond_init(&c.cond, nullptr);
	if (channel) {
		SoftChannel& soft_channel = SoftChannel::of(channel);
		const std::lock_guard lock(soft_channel.queues_mutex);
		soft_channel.queues.push_back(cq->cq());
		++soft_channel.users;
		++channel->refcnt;
	}
	fill_extended_poll(*cq);
	++SoftContext::of(context).users;
	return cq.release()->cq();
}

}  // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
	if (cqe <= 0 || comp_vector < 0)
		return log::refuse(EINVAL, "ibv_create_cq: cqe %d is below 1, or comp_vector %d below 0", cqe, comp_vector),
			   nullptr;
	return make_cq(
		context, static_cast<std::uint32_t>(cqe), cq_context, channel, static_cast<std::uint32_t>(comp_vector));
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
	constexpr std::uint64_t supported = static_cast<std::uint64_t>(IBV_WC_STANDARD_FLAGS) |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	// Hints that allow a provider to do less; ignoring them is correct.
	constexpr std::uint32_t flags_ignored = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	if (init->wc_flags & ~supported)
		return log::refuse(EOPNOTSUPP, "ibv_create_cq_ex: wc_flags 0x%llx are not supported",
				   static_cast<unsigned long long>(init->wc_flags & ~supported)),
			   nullptr;
	if (!device_limits().create_cq_ex)
		return refuse_by_profile(EOPNOTSUPP, "ibv_create_cq_ex: the device's provider lacks it"), nullptr;
	if (init->comp_mask & ~static_cast<std::uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return log::refuse(EINVAL, "ibv_create_cq_ex: comp_mask 0x%x has unknown bits", init->comp_mask), nullptr;
	if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (init->flags & ~flags_ignored))
		return log::refuse(EINVAL, "ibv_create_cq_ex: flags 0x%x are not supported", init->flags & ~flags_ignored),
			   nullptr;
	ibv_cq* cq = make_cq(context, init->cqe, init->cq_context, init->channel, init->comp_vector);
	return cq ? &SoftCq::of(cq).public_cq : nullptr;
}

int resize_cq(ibv_cq* public_cq, int cqe) {
	if (!device_limits().resize_cq)
		return refuse_by_profile(EOPNOTSUPP, "ibv_resize_cq: the device's provider lacks it");
	if (cqe <= 0) return log::refuse(EINVAL, "ibv_resize_cq: cqe %d is not in 1 to max_cqe", cqe);
	if (const std::uint32_t most = device_limits().max_cqe; static_cast<std::uint32_t>(cqe) > most)
		return refuse_figure("ibv_resize_cq", "cqe", static_cast<std::uint32_t>(cqe), most);
	SoftCq& cq = SoftCq::of(public_cq);
	// Pollers take the queue's lock, and passes write completions under the engine's lock.
	const std::lock_guard lock(cq.queue->lock);
	const bool done =
		cq.engine->control([&](adapter::ChannelAdapter&) { return cq.queue->resize(static_cast<std::uint32_t>(cqe)); });
	if (!done) return log::refuse(EINVAL, "ibv_resize_cq: the queue holds more than %d completions", cqe);
	cq.public_cq.cqe = is_strict() ? cqe : static_cast<int>(cq.queue->capacity());
	return 0;
}

int destroy_cq(engine::BlockingCall& call, ibv_cq* public_cq) {
	SoftCq& cq = SoftCq::of(public_cq);
	if (cq.users) return log::refuse(EBUSY, "ibv_destroy_cq: a queue pair uses the completion queue");
	ibv_comp_channel* const channel = cq.public_cq.channel;
	if (channel) {
		// No queue pair uses the CQ any more, so no new event can come. Events that the program has
		// not fetched vanish; those that it has fetched must be acknowledged first
		// (ibv_destroy_cq(3)).
		forget_event(cq);
		cq.engine->control([&](adapter::ChannelAdapter&) {
			SoftChannel::of(channel).events.remove_if([&](ibv_cq* queued) { return queued == public_cq; });
			return 0;
		});
	}
	SoftContext::of(cq.public_cq.context).async_events.remove_if([&](const ibv_async_event& event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == public_cq;
	});
	// ibv_destroy_cq(3): waits until every fetched event has been acknowledged. The queue is whole
	// until then, for a thread that is cancelled here and destroys it later.
	const bool complete = cq.acknowledged.reached(
		cq.public_cq.mutex, call,
		[&] {
			return cq.public_cq.comp_events_completed == cq.delivered.completions &&
				cq.public_cq.async_events_completed == cq.delivered.asynchronous;
		},
		[&] {
			explain_unacknowledged("ibv_destroy_cq", cq.delivered.completions - cq.public_cq.comp_events_completed,
				cq.delivered.asynchronous - cq.public_cq.async_events_completed);
		});
	if (!complete) return 0;
	if (channel) {
		{
			const std::lock_guard lock(SoftChannel::of(channel).queues_mutex);
			std::erase(SoftChannel::of(channel).queues, public_cq);
		}
		SoftChannel::of(channel).events.release_place();
		--SoftChannel::of(channel).users;
		--channel->refcnt;
	}
	--SoftContext::of(cq.public_cq.context).users;
	dispose(cq);
	return 0;
}

void deliver_completion_event(queues::CompletionQueue& queue) {
	SoftCq& cq = *static_cast<SoftCq*>(queue.user);
	// An event that the program has not fetched yet stands for this one as well, as on hardware, so
	// a program that arms again and again without fetching cannot make the channel's queue grow.
	if (cq.public_cq.channel && !cq.event_queued.exchange(true, std::memory_order_acq_rel) && !delays_event(cq))
		SoftChannel::of(cq.public_cq.channel).events.push(cq.cq());
}

int get_cq_event(engine::BlockingCall& call, ibv_comp_channel* channel, ibv_cq** public_cq, void** cq_context) {
	// A fork's child shares the descriptor with its parent and would take the parent's event.
	if (SoftContext::of(channel->context).dead)
		return log::refuse(EIO, "ibv_get_cq_event: the device was opened before fork(), by the parent"), -1;
	engine::Engine& engine = *SoftContext::of(channel->context).engine;
	if (!SoftChannel::of(channel).events.pop(*public_cq, engine, call)) {
		if (call.sleep != engine::BlockingCall::Sleep::none) watch_for_lost_wakeup(call, channel);
		return -1;
	}
	SoftCq& cq = SoftCq::of(*public_cq);
	// From here on a completion raises another event. This read-modify-write makes every completion
	// visible whose event was left to the one that is being fetched.
	cq.event_queued.exchange(false, std::memory_order_acq_rel);
	*cq_context = cq.public_cq.cq_context;
	pthread_mutex_lock(&cq.public_cq.mutex);
	++cq.delivered.completions;
	pthread_mutex_unlock(&cq.public_cq.mutex);
	return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned int count) {
	if (count == 0) return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	SoftCq::of(cq).acknowledged.notify();
	pthread_mutex_unlock(&cq->mutex);
}

int req_notify_cq(ibv_cq* public_cq, int solicited_only) noexcept {
	SoftCq& cq = SoftCq::of(public_cq);
	cq.engine->control([&](adapter::ChannelAdapter& adapter) {
		if (cq.queue->arm(solicited_only ? queues::Armed::solicited_only : queues::Armed::next))
			adapter.context().raised_queues.add(*cq.queue);
		return 0;
	});
	cq.engine->arm();  // the program may sleep from now on, so peers must kick
	return 0;
}

}  // namespace verbena::verbs
