// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sched.h>

#include "base/random.h"
#include "nic/engine/boundary.h"
#include "nic/engine/explain.h"
#include "nic/engine/progress.h"
#include "nic/engine/unreachable.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/retry_timer.h"

namespace verbena::engine {

using transport::Outlet;
using transport::QueuePair;

namespace {

// At the end of the process, a peer may have no room for this long for a last answer.
constexpr Nanoseconds last_answers_patience = 100'000'000;
// A poller looks for stuck peers once in this many empty passes, that is, every few microseconds.
constexpr std::uint32_t idle_polls_between_looks = 32;
// finish() returns after this many rounds, so that a busy UDP path does not hold the engine for
// ever.
constexpr int delivery_rounds = 8;
// post() lets this many packets gather for one system call.
constexpr std::uint64_t gathered_packets_max = 32;
// After this many passes that left packets on a UDP socket, timers run all the same.
constexpr std::uint32_t full_passes_max = 1024;
// After this many empty polls, another thread may need the processor more than this one.
constexpr std::uint32_t idle_polls_until_yield = 2048;
// After this many empty polls while ARMED, the program is polling rather than waiting for an event.
constexpr std::uint32_t polls_until_busy = 64;

}  // namespace

Engine::Engine(Events events, OwnProgress own, EpollSet epoll, std::unique_ptr<faults::Network> network, bool direct)
	: adapter_(secure_random<std::uint64_t>(), monotonic_now()),
	  events_(events),
	  own_(std::move(own)),
	  epoll_(std::move(epoll)),
	  network_(std::move(network)),
	  neighbours_(adapter_, epoll_, own_, remotes_),
	  remotes_(*this, adapter_, neighbours_, epoll_, network_.get()) {
	begin_direct(direct);
	own_.page().wire_only.store(network_ != nullptr, std::memory_order_relaxed);
	adapter_.context().clock = monotonic_now;
	adapter_.context().explain = explainer;
	adapter_.connections().draw = secure_random<std::uint64_t>;
	adapter_.connections().report_mismatch = explain_mismatch;
	adapter_.context().report_silence = [](const QueuePair& qp) {
		wire::Gid peer;
		std::ranges::copy(qp.cold->attributes.destination_gid, peer.begin());
		// The time in which all retries ran out, and a margin for a loaded machine.
		const transport::QueuePairAttributes& attributes = qp.cold->attributes;
		const Nanoseconds silence =
			(attributes.retry_count + 1u) * transport::ack_timeout(attributes.timeout) + 1'000'000'000;
		explain_silence(peer, {qp.destination_qpn}, static_cast<Remote*>(qp.outlet->user)->unreachable(silence));
	};
	adapter_.context().report_forgery = [](const QueuePair& qp) {
		wire::Gid peer;
		std::ranges::copy(qp.cold->attributes.destination_gid, peer.begin());
		explain_forgery(peer, {qp.destination_qpn});
	};
}

std::expected<std::unique_ptr<Engine>, int> Engine::start(
	Events events, std::unique_ptr<faults::Network> network, bool direct) {
	auto own = OwnProgress::create();
	if (!own) return std::unexpected(own.error());
	auto epoll = EpollSet::create();
	if (!epoll) return std::unexpected(epoll.error());
	std::unique_ptr<Engine> engine(new Engine(events, std::move(*own), std::move(*epoll), std::move(network), direct));
	engine->refresh_clock();
	engine->progress_ = std::make_unique<Progress>(*engine, engine->own_, engine->epoll_, events);
	if (const int error = engine->progress_->start()) return std::unexpected(error);
	return engine;
}

Engine::~Engine() = default;

bool Engine::watches_interfaces() const { return progress_->watches_interfaces(); }

bool Engine::pass() noexcept {
	own_.page().passes.store(++passes_, std::memory_order_relaxed);
	bool moved = false;
	const std::uint64_t requests_before = counters().requests_received;
	const std::uint64_t silent_before = adapter_.context().silent_writes;
	try {
		moved = neighbours_.receive();
		moved |= remotes_.pass();
		// Packets that this process was too starved to read are not lost: timers run only when the
		// sockets are empty, or after more passes than their receive buffers hold packets for. A
		// flood, which keeps them full, must not stop retransmissions.
		if (adapter_.poll_timeout() != never && (remotes_.dry() || ++full_passes_ > full_passes_max)) {
			full_passes_ = 0;
			refresh_clock();
			adapter_.handle_timeouts();
		}
	} catch (...) {
		no_memory();
	}
	had_requests_ = counters().requests_received != requests_before;
	had_silent_writes_ = adapter_.context().silent_writes != silent_before;
	return moved;
}

// The allocations of a pass are those of the connection manager and of packets for other processes.
// A message or datagram that finds no memory counts as lost, and its sender repeats it; a slot of a
// neighbour is read again.
void Engine::no_memory() noexcept {
	no_memory_ = true;
	++adapter_.context().counters.passes_without_memory;
}

void Engine::finish(adapter::Acks acks) noexcept {
	gathered_packets_ = 0;
	bool acks_wait = adapter_.finish_pass(acks);
	// A UDP path has room again as soon as its packets were delivered.
	for (int round = 0; adapter_.context().touched && round < delivery_rounds; ++round) {
		deliver_touched();
		if (adapter_.context().responding_first) [[unlikely]]
			acks_wait = adapter_.finish_pass(acks);
	}
	ack_delay_.note(acks_wait);
	if (!adapter_.context().raised_queues.empty() || !adapter_.context().raised_events.empty() ||
		adapter_.connections().has_events()) [[unlikely]]
		deliver_events();
	if (own_.armed()) [[unlikely]]
		correct_sleeper();
	if (counters_watched_.load(std::memory_order_relaxed)) [[unlikely]]
		events_.counted(*this);
}

void Engine::deliver_touched() {
	// Slots are published before the peers' ARMED is read; OwnProgress::arm() has the other half.
	std::atomic_thread_fence(std::memory_order_seq_cst);
	for (Outlet* outlet = adapter_.context().take_touched(); outlet;) {
		Outlet* next = outlet->next_touched;
		outlet->touched = false;
		if (outlet->lossless) static_cast<Link*>(outlet->user)->kick_if_wanted(adapter_.context().now, poster_polls_);
		else if (remotes_.transmit(*outlet) && outlet->waiting_first) adapter_.resume(*outlet);
		outlet = next;
	}
}

void Engine::deliver_events() {
	transport::Context& context = adapter_.context();
	while (queues::CompletionQueue* const cq = context.raised_queues.take()) events_.completion(*cq);
	for (const transport::RaisedEvent& event : context.raised_events) events_.asynchronous(event);
	context.raised_events.clear();
	while (const auto event = adapter_.connections().poll_event())
		if (!attempt([&] { events_.connection(adapter_.connections(), context.now, *event); })) no_memory();
}

void Engine::ring_doorbells() noexcept {
	doorbells_.take([this](QueuePair& qp) { adapter_.transmit(qp); });
	ack_delay_.note_post();
}

void Engine::leave() noexcept {
	lock_.unlock();
	while (doorbells_.rung() && lock_.try_lock()) {
		ring_doorbells();
		finish();
		lock_.unlock();
	}
}

// Whether a request that was just posted has left nothing for finish(), as one that was executed in
// the peer's memory.
bool Engine::left_nothing(const QueuePair& qp) const {
	const transport::Context& context = adapter_.context();
	return !context.touched && !qp.blocked && !ack_delay_.waiting() && context.raised_queues.empty() &&
		context.raised_events.empty() && !counters_watched_.load(std::memory_order_relaxed);
}

void Engine::post(QueuePair& qp) {
	if (lock_.try_lock()) [[likely]] {
		const transport::Psn before = qp.next_psn;
		// Over UDP, requests that follow others in flight gather for one system call, unless they
		// take an acknowledgement along. The next pass sends them, at the latest the one that the
		// acknowledgement of the earlier ones causes.
		const bool gathers = qp.una != before && qp.type == transport::QpType::rc && qp.outlet &&
			!qp.outlet->lossless && !own_.armed() && !ack_delay_.waiting();
		adapter_.transmit(qp);
		if (qp.blocked && !take_turns(qp)) [[unlikely]]
			return;
		if (left_nothing(qp)) return leave();
		if (gathers) gathered_packets_ += qp.next_psn - before;
		if (!gathers || gathered_packets_ >= gathered_packets_max) {
			ack_delay_.note_post();
			poster_polls_ =
				qp.signal_all || (qp.wqe(qp.sq_head.load(std::memory_order_relaxed) - 1).flags & queues::send_signaled);
			finish();
			poster_polls_ = true;
		}
		leave();
		return;
	}
	ring_and_leave(qp);
}

// Leaves the queue pair to the thread that holds the lock.
void Engine::ring_and_leave(QueuePair& qp) noexcept {
	doorbells_.ring(qp);
	// The holder may have looked for doorbells just before this one rang.
	if (lock_.try_lock()) leave();
}

bool Engine::poll() {
	if (!lock_.try_lock()) [[unlikely]] {
		program_polls_.add_miss();
		return false;
	}
	const bool moved = pass();
	finish(own_.armed() ? adapter::Acks::leave : ack_delay_.after_poll(had_requests_));
	if (moved) {
		idle_polls_ = 0;
	} else if (++idle_polls_ % idle_polls_between_looks == 0) [[unlikely]] {
		refresh_clock();
		const auto cpu = static_cast<std::uint32_t>(sched_getcpu());
		own_.page().cpu.store(cpu, std::memory_order_relaxed);
		driver_.store(static_cast<pid_t>(EngineLock::this_thread()), std::memory_order_relaxed);
		const bool shares_cpu = neighbours_.kick_stuck(adapter_.context().now, cpu);
		if (shares_cpu || idle_polls_ >= idle_polls_until_yield) {
			leave();
			return true;
		}
	}
	if (own_.armed() && ++armed_polls_ > polls_until_busy) [[unlikely]] {
		armed_polls_ = 0;
		own_.disarm();
	}
	leave();
	return false;
}

void Engine::arm() {
	if (own_.armed() || !lock_.try_lock()) return;
	armed_polls_ = 0;
	arm_wakes();
	pass();  // takes in what peers published before they could see ARMED
	finish();
	leave();
}

std::expected<void, int> Engine::claim_service(cm::ServiceId service) {
	if (abandoned_) return std::unexpected(EIO);
	auto listeners = Directory::of_this_user().claim(Place::service(service.value));
	if (!listeners) return std::unexpected(listeners.error());
	return control([&](adapter::ChannelAdapter&) { return neighbours_.add_service(service, std::move(*listeners)); });
}

void Engine::release_service(cm::ServiceId service) {
	control([&](adapter::ChannelAdapter&) { neighbours_.remove_service(service); });
}

std::expected<void, int> Engine::prepare_connections() {
	if (abandoned_) return std::unexpected(EIO);
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<void, int> {
		if (adapter.connections().has_block()) return {};
		if (const int error = remotes_.listen()) return std::unexpected(error);
		if (!neighbours_.first_block())
			if (auto claimed = claim_another_block(); !claimed) return claimed;
		adapter.connections().use_block(*neighbours_.first_block());
		return {};
	});
}

std::expected<void, int> Engine::listen_udp() {
	if (abandoned_) return {};
	int unreachable = 0;
	const int error = control([&](adapter::ChannelAdapter&) {
		const int failed = remotes_.listen();
		unreachable = remotes_.listening_error();
		return failed;
	});
	if (error) return std::unexpected(error);
	if (unreachable) explain_unheard(unreachable);
	return {};
}

void Engine::leave_behind_nothing() {
	if (abandoned_) return;
	lock_.lock();
	finish();
	// Last acknowledgements for which a peer has no room yet. One that is stopped never has any.
	const Nanoseconds deadline = monotonic_now() + last_answers_patience;
	while (!adapter_.context().refusals.empty() && monotonic_now() < deadline) {
		sched_yield();
		finish();
	}
	remotes_.let_go();
	leave();
}

void Engine::flush_receives(QueuePair& qp) {
	control([&](adapter::ChannelAdapter& adapter) {
		if (qp.state == transport::QpState::error) transport::flush_receive_queue(adapter.context(), qp);
	});
}

std::expected<void, int> Engine::claim_another_block() {
	auto block = claim_block(Directory::of_this_user());
	if (!block) return std::unexpected(block.error());
	const std::uint32_t number = block->block;
	const auto secret = secure_random<std::uint64_t>();
	if (auto added = neighbours_.add_block(std::move(*block)); !added) return added;
	try {
		adapter_.queue_pairs().add_block(number, secret);
	} catch (...) {
		neighbours_.remove_last_block();
		throw;
	}
	adapter_.context().rights.add_block(number);
	return {};
}

std::expected<QueuePair*, int> Engine::create_qp(const adapter::QpInit& init) {
	return control([&](adapter::ChannelAdapter& adapter) -> std::expected<QueuePair*, int> {
		if (abandoned_) return std::unexpected(EIO);  // the block of numbers is the parent's
		if (adapter.queue_pairs().full())
			if (auto claimed = claim_another_block(); !claimed) return std::unexpected(claimed.error());
		QueuePair* qp = adapter.create_qp(init);
		if (!qp) return std::unexpected(ENOMEM);
		return qp;
	});
}

bool Engine::waits_for_room() const { return adapter_.has_pending_responses() || neighbours_.wait_for_room(); }

void Engine::retire_unused_outlets() {
	// finish() empties the lists of a pass, which point at the outlets of retired links. Only then
	// may a link be freed.
	if (neighbours_.retire_due(adapter_.context().now)) finish();
	const auto forget = [this](const Outlet& outlet) { addresses_.erase(&outlet); };
	neighbours_.free_unreferenced(forget);
	if (adapter_.context().now >= remotes_.upkeep_due() || remotes_.has_retired()) {
		finish();  // empties the lists of the pass, as above
		remotes_.upkeep(adapter_.context().now, forget);
	}
}

}  // namespace verbena::engine
