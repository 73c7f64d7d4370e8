// Completion queues, channels and their events.
#include <cerrno>
#include <new>

#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

ibv_comp_channel* create_comp_channel(ibv_context* context) {
	auto* channel = new (std::nothrow) SoftChannel;
	if (!channel || channel->events.fd() < 0) {
		const int error = channel ? errno : ENOMEM;
		delete channel;
		return errno = error, nullptr;
	}
	channel->public_channel.context = context;
	channel->public_channel.fd = channel->events.fd();
	++SoftContext::of(context).users;
	return &channel->public_channel;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
	if (SoftChannel::of(channel).users) return errno = EBUSY;
	--SoftContext::of(channel->context).users;
	delete &SoftChannel::of(channel);
	return 0;
}

namespace {

ibv_cq* make_cq(
	ibv_context* context, std::uint32_t entries, void* cq_context, ibv_comp_channel* channel, std::uint32_t vector) {
	if (entries == 0 || entries > static_cast<std::uint32_t>(limits::cqe) ||
		vector >= static_cast<std::uint32_t>(context->num_comp_vectors))
		return errno = EINVAL, nullptr;
	auto* cq = new (std::nothrow) SoftCq;
	if (!cq) return errno = ENOMEM, nullptr;
	cq->engine = SoftContext::of(context).engine;
	cq->queue = std::make_unique<queues::CompletionQueue>(entries);
	cq->queue->user = cq;
	ibv_cq_ex& c = cq->public_cq;
	c.context = context;
	c.channel = channel;
	c.cq_context = cq_context;
	c.cqe = static_cast<int>(cq->queue->capacity());
	pthread_mutex_init(&c.mutex, nullptr);
	pthread_cond_init(&c.cond, nullptr);
	if (channel) {
		++SoftChannel::of(channel).users;
		++channel->refcnt;
	}
	fill_extended_poll(*cq);
	++SoftContext::of(context).users;
	return cq->cq();
}

}  // namespace

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
	if (cqe <= 0 || comp_vector < 0) return errno = EINVAL, nullptr;
	return make_cq(
		context, static_cast<std::uint32_t>(cqe), cq_context, channel, static_cast<std::uint32_t>(comp_vector));
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
	constexpr std::uint64_t supported = static_cast<std::uint64_t>(IBV_WC_STANDARD_FLAGS) |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	// Hints that allow a provider to do less; ignoring them is correct.
	constexpr std::uint32_t flags_ignored = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	if (init->wc_flags & ~supported) return errno = EOPNOTSUPP, nullptr;
	if (init->comp_mask & ~static_cast<std::uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return errno = EINVAL, nullptr;
	if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (init->flags & ~flags_ignored))
		return errno = EINVAL, nullptr;
	ibv_cq* cq = make_cq(context, init->cqe, init->cq_context, init->channel, init->comp_vector);
	return cq ? &SoftCq::of(cq).public_cq : nullptr;
}

int resize_cq(ibv_cq* public_cq, int cqe) {
	if (cqe <= 0 || cqe > limits::cqe) return errno = EINVAL;
	SoftCq& cq = SoftCq::of(public_cq);
	// Pollers take the queue's lock, and passes write completions under the engine's lock.
	cq.queue->lock.lock();
	const bool done =
		cq.engine->control([&](adapter::ChannelAdapter&) { return cq.queue->resize(static_cast<std::uint32_t>(cqe)); });
	cq.queue->lock.unlock();
	if (!done) return errno = EINVAL;  // the queue holds more completions than `cqe`
	cq.public_cq.cqe = static_cast<int>(cq.queue->capacity());
	return 0;
}

int destroy_cq(ibv_cq* public_cq) {
	SoftCq& cq = SoftCq::of(public_cq);
	if (cq.users) return errno = EBUSY;
	if (ibv_comp_channel* channel = cq.public_cq.channel) {
		// No queue pair uses the CQ any more, so no new event can come. Events that the program has
		// not fetched vanish; those that it has fetched must be acknowledged first
		// (ibv_destroy_cq(3)).
		cq.engine->control([&](adapter::ChannelAdapter&) {
			SoftChannel::of(channel).events.remove_if([&](ibv_cq* queued) { return queued == public_cq; });
			return 0;
		});
		--SoftChannel::of(channel).users;
		--channel->refcnt;
	}
	SoftContext::of(cq.public_cq.context).async_events.remove_if([&](const ibv_async_event& event) {
		return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == public_cq;
	});
	// ibv_destroy_cq(3): waits until every fetched event has been acknowledged.
	pthread_mutex_lock(&cq.public_cq.mutex);
	while (cq.public_cq.comp_events_completed != cq.delivered.completions ||
		cq.public_cq.async_events_completed != cq.delivered.asynchronous)
		pthread_cond_wait(&cq.public_cq.cond, &cq.public_cq.mutex);
	pthread_mutex_unlock(&cq.public_cq.mutex);
	--SoftContext::of(cq.public_cq.context).users;
	delete &cq;
	return 0;
}

void deliver_completion_event(queues::CompletionQueue& queue) {
	SoftCq& cq = *static_cast<SoftCq*>(queue.user);
	if (cq.public_cq.channel) SoftChannel::of(cq.public_cq.channel).events.push(cq.cq());
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** public_cq, void** cq_context) {
	// A fork's child shares the descriptor with its parent and would take the parent's event.
	if (SoftContext::of(channel->context).dead) return errno = EIO, -1;
	engine::Engine& engine = *SoftContext::of(channel->context).engine;
	if (!SoftChannel::of(channel).events.pop(*public_cq, [&](int fd) { return engine.drive_until_readable(fd); }))
		return -1;
	SoftCq& cq = SoftCq::of(*public_cq);
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
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

int req_notify_cq(ibv_cq* public_cq, int solicited_only) {
	SoftCq& cq = SoftCq::of(public_cq);
	cq.engine->control([&](adapter::ChannelAdapter&) {
		cq.queue->arm(solicited_only ? queues::Armed::solicited_only : queues::Armed::next);
		return 0;
	});
	cq.engine->arm();  // the program may sleep from now on, so peers must kick
	return 0;
}

}  // namespace verbena::verbs
