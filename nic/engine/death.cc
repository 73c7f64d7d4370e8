// The end of things: links whose peer has died, and an engine that a fork has copied.
//
// A dead link may go when nothing points at its outlet. Queue pairs are moved to the link to nobody at once. Datagrams
// are harder, because address handles remember outlets, and a poster reads them under its send queue's lock alone. So
// `deaths_` counts first, which makes every address handle look anew; then each datagram QP's lock is taken once:
// whoever held it has finished its post by then, and what it posted can be seen in the queue.
#include <algorithm>
#include <new>
#include <sched.h>
#include <sys/mman.h>

#include "base/check.h"
#include "nic/engine/engine.h"
#include "nic/engine/progress.h"
#include "nic/transport/in_flight.h"

namespace verbena::engine {

using transport::QueuePair;

void Engine::bury(Link& link) {
	progress_->forget(link);
	// What the peer had published before its death.
	while (link.receive(adapter_, remotes_)) {}
	adapter_.finish_pass();
	adapter_.fail_outlet(link.outlet);

	if (!nobody_) {
		auto made = Link::to_nobody(*page_.object, doorbell_.get());
		check(made.has_value(), "address space for a link");
		nobody_ = made->get();
		links_.push_back(std::move(*made));
	}
	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		if (qp.outlet == &link.outlet) qp.outlet = &nobody_->outlet;
	});
	std::erase(adapter_.context().lenders, &link.outlet);
	finish();  // refusals and the list of outlets written to forget it
	std::erase_if(link_by_token_, [&](const auto& entry) { return entry.second == &link; });
	std::erase_if(link_by_block_, [&](const auto& entry) { return entry.second == &link; });
	std::erase_if(served_by_, [&](const auto& entry) { return entry.second.link == &link; });
	const auto at = std::ranges::find(links_, &link, &std::unique_ptr<Link>::get);
	dead_.push_back(std::move(*at));
	links_.erase(at);
	deaths_.fetch_add(1, std::memory_order_release);
	reap();
}

void Engine::reap() {
	if (dead_.empty()) return;
	bool quiet = true;
	std::vector<const void*> named;  // by datagrams that have not been sent yet
	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		if (qp.type != transport::QpType::ud || !quiet) return;
		if (!qp.sq_lock.try_lock()) {
			quiet = false;  // next time
			return;
		}
		const std::uint32_t head = qp.sq_head.load(std::memory_order_relaxed);
		for (std::uint32_t i = qp.sq_tail.load(std::memory_order_relaxed); i != head; ++i)
			named.push_back(qp.wqe(i).datagram.outlet);
		qp.sq_lock.unlock();
	});
	if (!quiet) return;
	std::erase_if(dead_, [&](const std::unique_ptr<Link>& link) {
		if (std::ranges::find(named, &link->outlet) != named.end()) return false;
		addresses_.erase(&link->outlet);
		return true;
	});
}

// A peer whose ring makes no sense is treated as dead.
void Engine::drop_broken_links() {
	for (;;) {
		const auto at = std::ranges::find_if(links_, [](const auto& link) { return link->broken(); });
		if (at == links_.end()) return;
		bury(**at);
	}
}

bool Engine::hold_for_fork() {
	// A signal handler that forks may have interrupted the holder: then the child takes the engine as it is.
	for (int patience = 0; patience < 10'000; ++patience) {
		if (lock_.try_lock()) return true;
		sched_yield();
	}
	return false;
}

void Engine::abandon_after_fork() {
	new (&lock_) EngineLock;
	abandoned_ = true;
	events_ = {[](queues::CompletionQueue&) {}, [](const transport::RaisedEvent&) {},
		[](cm::ConnectionManager&, Nanoseconds, const cm::Event&) {
		}};  // the descriptors they would write to are the parent's, too
	doorbells_.store(nullptr, std::memory_order_relaxed);
	adapter_.context().touched = nullptr;
	adapter_.context().refusals.clear();
	adapter_.context().lenders.clear();
	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		// Other threads may have held these, and are not here to release them.
		new (&qp.sq_lock) SpinLock;
		new (&qp.send_cq->lock) SpinLock;
		new (&qp.recv_cq->lock) SpinLock;
		if (qp.receive_queue) new (&qp.receive_queue->lock) SpinLock;
		qp.doorbell.store(false, std::memory_order_relaxed);
		qp.outlet = nullptr;
		qp.blocked = 0;
		qp.cold->waiting_on = nullptr;
		if (qp.state != transport::QpState::reset) transport::enter_error(adapter_.context(), qp);
	});
	progress_->abandon_after_fork();
	remotes_.abandon_after_fork();
	for (auto* list : {&links_, &dead_})
		for (auto& link : *list) link->abandon_after_fork();
	links_.clear();
	dead_.clear();
	nobody_ = nullptr;
	link_by_token_.clear();
	link_by_block_.clear();
	served_by_.clear();
	addresses_.clear();
	blocks_.clear();
	services_.clear();
	doorbell_ = Descriptor();
	page_.fd = Descriptor();
	forget_mapping(page_.object);
	void* page = mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(page != MAP_FAILED, "a page of memory");
	page_.object.reset(static_cast<ProgressPage*>(page));
}

}  // namespace verbena::engine
