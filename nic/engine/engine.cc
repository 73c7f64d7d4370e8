#include "nic/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/random.h"
#include "nic/engine/progress.h"
#include "nic/transport/in_flight.h"

namespace verbena::engine {

using transport::Outlet;
using transport::QueuePair;

namespace {

// A poller looks for stuck peers once in so many empty passes, which makes it a few microseconds.
constexpr std::uint32_t idle_polls_between_looks = 32;
// The engine is not held for longer than it takes to fill a path's ring so many times.
constexpr int delivery_rounds = 8;
constexpr std::uint64_t gathered_packets_max = 32;
// After so many, other threads may need the processor more than this one.
constexpr std::uint32_t idle_polls_until_yield = 2048;
// So many empty polls while ARMED, and this program is polling rather than waiting for an event.
constexpr std::uint32_t polls_until_busy = 64;

constexpr std::chrono::milliseconds connect_patience{
	5000};  // a busy machine may well keep a process off its processors for seconds
// Datagrams to a process that gave no answer are dropped for so long, and for ten times as long as it was waited for.
constexpr Nanoseconds silence = 1'000'000'000;

}  // namespace

Engine::Engine(Events events) : adapter_(secure_random<std::uint64_t>(), monotonic_now()), events_(events) {
	adapter_.context().clock = monotonic_now;
}

std::expected<std::unique_ptr<Engine>, int> Engine::start(Events events) {
	std::unique_ptr<Engine> engine(new Engine(events));
	auto page = create_progress_page();
	if (!page) return std::unexpected(page.error());
	engine->page_ = std::move(*page);
	engine->doorbell_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (!engine->doorbell_) return std::unexpected(errno);
	engine->identity_ = {secure_random<std::uint64_t>(), engine->doorbell_.get(), engine->page_.fd.get()};
	engine->refresh_clock();
	engine->progress_ = std::make_unique<Progress>(*engine);
	if (const int error = engine->progress_->start()) return std::unexpected(error);
	return engine;
}

Engine::~Engine() = default;

bool Engine::pass() {
	page_.object->passes.store(++passes_, std::memory_order_relaxed);
	bool moved = false;
	for (auto& link : links_) {
		moved |= link->receive(adapter_, remotes_);
		if (link->outlet.waiting_first) adapter_.resume(link->outlet);
	}
	moved |= remotes_.pass();
	// A starved process must not take for lost what it has not read yet.
	if (adapter_.poll_timeout() != never && remotes_.dry()) {
		refresh_clock();
		adapter_.handle_timeouts();
	}
	return moved;
}

void Engine::finish() {
	gathered_packets_ = 0;
	adapter_.finish_pass();
	// A path over UDP has room again as soon as it has been delivered.
	for (int round = 0; adapter_.context().touched && round < delivery_rounds; ++round) {
		deliver_touched();
		if (adapter_.context().owing_first) [[unlikely]]
			adapter_.finish_pass();
	}
	if (!adapter_.context().raised_queues.empty() || !adapter_.context().raised_events.empty() ||
		adapter_.connections().has_events()) [[unlikely]]
		deliver_events();
	if (page_.object->armed()) [[unlikely]]
		correct_sleeper();
}

void Engine::deliver_touched() {
	std::atomic_thread_fence(std::memory_order_seq_cst);  // published before the peers' ARMED is read
	for (Outlet* outlet = adapter_.context().take_touched(); outlet;) {
		Outlet* next = outlet->next_touched;
		outlet->touched = false;
		if (outlet->lossless) static_cast<Link*>(outlet->user)->kick_if_armed();
		else if (remotes_.transmit(*outlet) && outlet->waiting_first) adapter_.resume(*outlet);
		outlet = next;
	}
}

void Engine::deliver_events() {
	transport::Context& context = adapter_.context();
	for (queues::CompletionQueue* cq : context.raised_queues) events_.completion(*cq);
	context.raised_queues.clear();
	for (const transport::RaisedEvent& event : context.raised_events) events_.asynchronous(event);
	context.raised_events.clear();
	while (const auto event = adapter_.connections().poll_event())
		events_.connection(adapter_.connections(), context.now, *event);
}

void Engine::ring_doorbells() {
	for (QueuePair* qp = doorbells_.exchange(nullptr, std::memory_order_acquire); qp;) {
		QueuePair* next = qp->cold->next_doorbell;
		qp->doorbell.store(false, std::memory_order_release);
		adapter_.transmit(*qp);
		qp = next;
	}
}

void Engine::leave() {
	lock_.unlock();
	while (doorbells_.load(std::memory_order_relaxed) && lock_.try_lock()) {
		ring_doorbells();
		finish();
		lock_.unlock();
	}
}

void Engine::post(QueuePair& qp) {
	if (lock_.try_lock()) [[likely]] {
		const transport::Psn before = qp.next_psn;
		// Over UDP, requests that follow others on their way gather to one system call: the next pass takes them, at
		// the latest that which the acknowledgement of the others makes.
		const bool gathers = qp.una != before && qp.type == transport::QpType::rc && qp.outlet &&
			!qp.outlet->lossless && !page_.object->armed();
		adapter_.transmit(qp);
		if (gathers) gathered_packets_ += qp.next_psn - before;
		if (!gathers || gathered_packets_ >= gathered_packets_max) finish();
		leave();
		return;
	}
	if (!qp.doorbell.exchange(true, std::memory_order_acq_rel)) {
		QueuePair*& next = qp.cold->next_doorbell;
		next = doorbells_.load(std::memory_order_relaxed);
		while (!doorbells_.compare_exchange_weak(next, &qp, std::memory_order_seq_cst)) {}
	}
	if (lock_.try_lock()) leave();  // the holder may have looked for doorbells just before
}

void Engine::poll() {
	if (!lock_.try_lock()) return;
	const bool moved = pass();
	finish();
	if (moved) {
		idle_polls_ = 0;
	} else if (++idle_polls_ % idle_polls_between_looks == 0) [[unlikely]] {
		refresh_clock();
		const auto cpu = static_cast<std::uint32_t>(sched_getcpu());
		page_.object->cpu.store(cpu, std::memory_order_relaxed);
		bool yield = idle_polls_ >= idle_polls_until_yield;
		for (auto& link : links_) {
			link->kick_if_stuck(adapter_.context().now);
			yield |= link->shares_cpu(cpu);
		}
		if (yield) {
			leave();
			sched_yield();
			return;
		}
	}
	if (page_.object->armed() && ++armed_polls_ > polls_until_busy) [[unlikely]] {
		armed_polls_ = 0;
		progress_->program_polls();
	}
	leave();
}

void Engine::arm() {
	if (page_.object->armed() || !lock_.try_lock()) return;
	armed_polls_ = 0;
	progress_->set_armed();
	pass();  // what was published before a peer could see ARMED
	finish();
	leave();
}

Outlet* Engine::known_outlet(Place place) {
	return control([&](adapter::ChannelAdapter&) -> Outlet* {
		Link* link = nullptr;
		if (place.is_service) {
			const auto at = served_by_.find(cm::ServiceId{place.value});
			if (at != served_by_.end() && at->second.released == at->second.link->services_released())
				link = at->second.link;
		} else {
			const auto at = link_by_block_.find(static_cast<std::uint32_t>(place.value));
			if (at != link_by_block_.end()) link = at->second;
		}
		// A new process may have the place of one that has just ended.
		return link && !link->outlet.closed && !link->peer_is_gone() ? &link->outlet : nullptr;
	});
}

std::expected<Outlet*, int> Engine::local_outlet(Place place, bool patient) {
	if (Outlet* known = known_outlet(place)) return known;
	const std::lock_guard one_at_a_time(connect_mutex_);
	if (Outlet* known = known_outlet(place)) return known;  // by now
	const cm::ServiceId service{place.value};
	ServedBy before{};
	const std::uint32_t deaths_before = deaths();
	control([&](adapter::ChannelAdapter&) {
		if (!place.is_service) return 0;
		if (const auto at = served_by_.find(service); at != served_by_.end())
			before = {at->second.link, at->second.link->services_released()};
		return 0;
	});

	const auto silent = silent_until_.find(place);
	if (!patient && silent != silent_until_.end() && monotonic_now() < silent->second)
		return std::unexpected(ETIMEDOUT);
	const Nanoseconds start = monotonic_now();
	auto peer = connect_to(identity_, geteuid(), place, connect_patience);
	if (silent != silent_until_.end()) silent_until_.erase(silent);
	if (!peer) {
		const Nanoseconds now = monotonic_now();
		if (peer.error() == ETIMEDOUT) silent_until_[place] = now + std::max(silence, 10 * (now - start));
		return std::unexpected(peer.error());
	}
	const std::uint64_t token = peer->token;
	return control([&](adapter::ChannelAdapter&) -> std::expected<Outlet*, int> {
		Link* link = nullptr;
		if (peer->is_self || peer->already_linked) {
			if (const auto at = link_by_token_.find(token); at != link_by_token_.end()) link = at->second;
			else if (peer->already_linked)
				return std::unexpected(ECONNRESET);  // we have just lost the link that the peer still has
			else if (auto self = Link::to_self(token, *page_.object, doorbell_.get())) link = keep(std::move(*self));
			else return std::unexpected(self.error());
		} else {
			// Two processes that connect to each other at one moment get two links. The peer counts on both, so none
			// may be dropped.
			link = keep(std::make_unique<Link>(std::move(*peer)));
		}
		if (!place.is_service) link_by_block_[static_cast<std::uint32_t>(place.value)] = link;
		else
			served_by_[service] = {
				link, link == before.link && deaths() == deaths_before ? before.released : std::nullopt};
		return &link->outlet;
	});
}

Link* Engine::keep(std::unique_ptr<Link> link) {
	Link* kept = link.get();
	if (!kept->is_self()) progress_->watch(*kept);
	links_.push_back(std::move(link));
	link_by_token_.try_emplace(kept->outlet.peer, kept);
	return kept;
}

std::expected<Outlet*, int> Engine::outlet_to(
	const wire::AddressPair& addresses, bool local, wire::Qpn qpn, bool patient) {
	if (abandoned_) return std::unexpected(EIO);
	if (local) {
		auto outlet = local_outlet(Place::block(block_of(qpn)), patient);
		// The address is ours and the QPN is not: it may belong to another user's process, or to nobody. Datagrams and
		// requests go out and are lost there.
		if (outlet || outlet.error() != ECONNREFUSED) return outlet;
	}
	return control([&](adapter::ChannelAdapter&) { return remotes_.outlet_to(addresses); });
}

std::expected<Outlet*, int> Engine::service_outlet(
	const wire::AddressPair& addresses, bool local, cm::ServiceId service) {
	if (abandoned_) return std::unexpected(EIO);
	if (local) return local_outlet(Place::service(service.value));
	return control([&](adapter::ChannelAdapter&) { return remotes_.outlet_to(addresses); });
}

std::expected<void, int> Engine::claim_service(cm::ServiceId service) {
	if (abandoned_) return std::unexpected(EIO);
	auto listener = listen_on(geteuid(), Place::service(service.value));
	if (!listener) return std::unexpected(listener.error());
	return control([&](adapter::ChannelAdapter&) -> std::expected<void, int> {
		progress_->listen(listener->get());
		services_[service] = std::move(*listener);
		return {};
	});
}

void Engine::release_service(cm::ServiceId service) {
	control([&](adapter::ChannelAdapter&) {
		page_.object->services_released.fetch_add(
			1, std::memory_order_release);  // before anybody else can have the name
		services_.erase(service);
		return 0;
	});
}

std::expected<void, int> Engine::prepare_connections() {
	if (abandoned_) return std::unexpected(EIO);
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		if (adapter.connections().has_block()) return {};
		remotes_.listen();
		if (blocks_.empty())
			if (auto claimed = claim_another_block(); !claimed) return claimed;
		adapter.connections().use_block(blocks_.front().block);
		return {};
	});
}

std::expected<void, int> Engine::attach_multicast(
	QueuePair& qp, const wire::Gid& group, std::uint32_t interface_index) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		if (abandoned_) return std::unexpected(EIO);
		if (!adapter.attach_multicast(group, qp)) return std::unexpected(EINVAL);
		if (const int error = remotes_.join(group, interface_index)) {
			adapter.detach_multicast(group, qp);
			return std::unexpected(error);
		}
		return {};
	});
}

std::expected<void, int> Engine::detach_multicast(
	QueuePair& qp, const wire::Gid& group, std::uint32_t interface_index) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		if (!adapter.detach_multicast(group, qp)) return std::unexpected(EINVAL);
		remotes_.leave(group, interface_index);
		return {};
	});
}

void Engine::listen_udp() {
	if (abandoned_) return;
	control([&](adapter::ChannelAdapter&) {
		remotes_.listen();
		return 0;
	});
}

void Engine::flush_receives(QueuePair& qp) {
	control([&](adapter::ChannelAdapter& adapter) {
		if (qp.state == transport::QpState::error) transport::flush_receive_queue(adapter.context(), qp);
		return 0;
	});
}

std::expected<std::uint8_t, int> Engine::address_index(Outlet& outlet, const wire::AddressPair& pair) {
	return control([&](adapter::ChannelAdapter&) -> std::expected<std::uint8_t, int> {
		std::vector<wire::AddressPair>& known = addresses_[&outlet];
		const auto at = std::find(known.begin(), known.end(), pair);
		if (at != known.end()) return static_cast<std::uint8_t>(at - known.begin());
		if (known.size() == transport::management_address_index) return std::unexpected(ENOSPC);
		outlet.slots.direction()->addresses[known.size()] = pair;
		known.push_back(pair);
		return static_cast<std::uint8_t>(known.size() - 1);
	});
}

std::expected<void, int> Engine::claim_another_block() {
	auto block = claim_block();
	if (!block) return std::unexpected(block.error());
	adapter_.queue_pairs().add_block(block->block, secure_random<std::uint64_t>());
	progress_->listen(block->listener.get());
	blocks_.push_back(std::move(*block));
	return {};
}

std::expected<QueuePair*, int> Engine::create_qp(const adapter::QpInit& init) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<QueuePair*, int> {
		if (abandoned_) return std::unexpected(EIO);  // the numbers are the parent's
		if (adapter.queue_pairs().full())
			if (auto claimed = claim_another_block(); !claimed) return std::unexpected(claimed.error());
		QueuePair* qp = adapter.create_qp(init);
		if (!qp) return std::unexpected(ENOMEM);
		return qp;
	});
}

bool Engine::waits_for_room() const {
	return adapter_.owes_responses() || std::any_of(links_.begin(), links_.end(), [](const auto& link) {
		return link->outlet.waiting_first != nullptr;
	});
}

}  // namespace verbena::engine
