// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/adverse_path.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <sched.h>
#include <string>
#include <time.h>

#include "base/log.h"
#include "base/random.h"
#include "base/time.h"
#include "nic/adversary/adversary.h"
#include "nic/adversary/gate.h"
#include "nic/engine/boundary.h"
#include "nic/engine/thread.h"
#include "nic/trace/trace.h"
#include "nic/verbs/decorate.h"
#include "nic/verbs/late_events.h"

namespace verbena::verbs {
namespace {

static_assert(adversary::kind_count == static_cast<unsigned>(trace::Unkindness::count));

void note_decision(const adversary::Decision& decision) {
	if (!trace::on()) return;
	trace::write({.kind = trace::Kind::unkind,
		.code = static_cast<std::uint8_t>(decision.kind),
		.qpn = decision.qpn,
		.length = static_cast<std::uint32_t>(decision.bytes),
		.address = decision.time,
		.number = static_cast<std::uint32_t>(decision.observations)});
}

// The unkind NIC of this process. Never destroyed, as the process's engine is not either.
struct Unkind {
	Unkind(engine::Engine& engine, adapter::ChannelAdapter& adapter, const adversary::Spec& spec)
		: engine(engine),
		  adversary(spec, adapter, adapter.context().observer, [this] { note_change(); }, note_decision) {
		adapter.context().observer = &adversary;
	}

	void note_change() {
		const std::lock_guard lock(mutex);
		changed = true;
		condition.notify_one();
	}
	void advance() {
		engine.control([this](adapter::ChannelAdapter& adapter) { adversary.advance(adapter.context().now); });
	}
	// The thread ends the delays of a program that makes no calls.
	void run() {
		for (;;) {
			{
				std::unique_lock lock(mutex);
				const Nanoseconds due = std::min(adversary.due(), late_events.due());
				const auto wakes = [this] { return changed; };
				if (due == never) condition.wait(lock, wakes);
				else if (const Nanoseconds now = monotonic_now(); now < due)
					condition.wait_for(lock, std::chrono::nanoseconds(due - now), wakes);
				changed = false;
			}
			if (monotonic_now() >= adversary.due()) engine::attempt([this] { advance(); });
			late_events.deliver(monotonic_now());
		}
	}

	engine::Engine& engine;
	std::mutex mutex;
	std::condition_variable condition;
	bool changed = false;
	adversary::Adversary adversary;
	LateEvents late_events;
	std::atomic<std::uint64_t> slow_verbs = 0;  // calls of verbs that may be slow
	engine::Thread thread;
	bool has_thread = false;
};

std::atomic<Unkind*> unkind = nullptr;
adversary::Spec wanted;
std::atomic<bool> is_wanted = false;
std::atomic<std::uint32_t> queues_made = 0;

// After each call of the program: time may have passed, and perhaps it has observed something.
void note_calls(int observations) {
	Unkind* const u = unkind.load(std::memory_order_acquire);
	if (!u) return;
	bool due = false;
	for (int i = 0; i < observations; ++i) due |= u->adversary.observe();
	if (due || u->adversary.due() <= monotonic_now()) u->advance();
}

void before_post(const SoftQp& sqp) {
	Unkind* const u = unkind.load(std::memory_order_acquire);
	if (!u) return;
	sqp.engine->control([&](adapter::ChannelAdapter&) { u->adversary.before_post(*sqp.qp); });
}

// The functions that the adverse ones call. All contexts, queue pairs and queues have the same.
ibv_context_ops plain;
constinit ReplacedFunctions gentle{};

int adverse_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
	before_post(SoftQp::of(qp));
	const int error = plain.post_send(qp, wr, bad);
	note_calls(1);
	return error;
}

// The number of completions that a poll for `count` may take now.
int admitted(SoftCq& cq, int count) {
	note_calls(0);
	bool idle = false;
	if (cq.queue->empty()) idle = cq.engine->poll();
	if (idle) sched_yield();
	const int some = cq.gate->admit(cq.queue->unpolled(), count, monotonic_now());
	if (const std::uint64_t polls = some == 0 ? cq.gate->take_decision() : 0)
		note_decision(
			{.kind = adversary::Kind::completions, .observations = polls, .time = adversary::Gate::hidden_time_max});
	return some;
}

// A completion with an error has no valid field but wr_id, status, qp_num and vendor_err
// (ibv_poll_cq(3)).
void spoil(const adversary::Gate& gate, ibv_wc& wc) {
	if (wc.status == IBV_WC_SUCCESS || !gate.makes_junk()) return;
	const std::uint32_t junk = gate.junk();
	wc.opcode = static_cast<ibv_wc_opcode>(junk & 0x80 ? IBV_WC_RECV : IBV_WC_RDMA_WRITE);
	wc.byte_len = junk;
	wc.imm_data = junk;
	wc.src_qp = junk & 0xffffff;
	wc.wc_flags = junk & 3;
	wc.vendor_err = 0x80 | (junk >> 24 & 0x1f);
}

int adverse_poll_cq(ibv_cq* public_cq, int count, ibv_wc* wc) noexcept {
	SoftCq& cq = SoftCq::of(public_cq);
	const int admitted_now = count > 0 ? admitted(cq, count) : count;
	if (admitted_now == 0) return 0;
	const int taken = plain.poll_cq(public_cq, admitted_now, wc);
	for (int i = 0; i < taken; ++i) spoil(*cq.gate, wc[i]);
	cq.gate->took(std::max(taken, 0));
	if (taken > 0) note_calls(taken);
	return taken;
}

int adverse_req_notify_cq(ibv_cq* public_cq, int solicited_only) noexcept {
	SoftCq& cq = SoftCq::of(public_cq);
	if (cq.gate->is_spurious()) {
		note_decision({.kind = adversary::Kind::events});
		cq.engine->control([&](adapter::ChannelAdapter& adapter) { adapter.context().raised_queues.add(*cq.queue); });
	}
	if (cq.gate->is_strict()) {
		// The first request reports the completions in the queue, and its event is dropped.
		const queues::Armed armed = solicited_only ? queues::Armed::solicited_only : queues::Armed::next;
		cq.engine->control([&](adapter::ChannelAdapter& adapter) {
			if (cq.queue->arm(armed) && cq.queue->arm(armed)) adapter.context().raised_queues.add(*cq.queue);
		});
		cq.engine->arm();
	} else {
		plain.req_notify_cq(public_cq, solicited_only);
	}
	// After the request: a completion that came just before it must not be hidden.
	cq.gate->arm(cq.queue->unpolled());
	return 0;
}

void spoil_current(SoftCq& cq) {
	if (cq.current.status == queues::Status::success || !cq.gate->makes_junk()) return;
	const std::uint32_t junk = cq.gate->junk();
	cq.current.opcode = junk & 0x80 ? queues::Completed::receive : queues::Completed::rdma_write;
	cq.current.length = junk;
	cq.current.immediate = junk;
	cq.current.source_qp = junk & 0xffffff;
}

int adverse_start_poll(ibv_cq_ex* public_cq, ibv_poll_cq_attr* attributes) {
	SoftCq& cq = SoftCq::of(public_cq);
	if (admitted(cq, 1) == 0) return ENOENT;
	const int error = gentle.start_poll.load(std::memory_order_relaxed)(public_cq, attributes);
	cq.gate->took(error ? 0 : 1);
	if (error) return error;
	spoil_current(cq);
	return 0;
}

// Between ibv_start_poll and ibv_end_poll the thread holds the queue's lock.
int adverse_next_poll(ibv_cq_ex* public_cq) {
	SoftCq& cq = SoftCq::of(public_cq);
	if (cq.gate->admit(cq.queue->unpolled(), 1, monotonic_now()) == 0) return ENOENT;
	const int error = gentle.next_poll.load(std::memory_order_relaxed)(public_cq);
	cq.gate->took(error ? 0 : 1);
	if (error) return error;
	spoil_current(cq);
	return 0;
}

}  // namespace

std::expected<bool, int> read_adversary() {
	const char* const text = std::getenv("VERBENA_ADVERSARY");
	if (!text || *text == '\0') return false;
	auto spec = adversary::parse(text);
	if (!spec) {
		log::error("VERBENA_ADVERSARY: '%s' %s", spec.error().word.c_str(), spec.error().reason.c_str());
		return std::unexpected(EINVAL);
	}
	if (!spec->seed) spec->seed = secure_random<std::uint32_t>();
	wanted = *spec;
	is_wanted.store(true, std::memory_order_release);
	return true;
}

bool is_adverse() { return is_wanted.load(std::memory_order_acquire); }

void begin_adversary(engine::Engine& engine) {
	if (!is_adverse()) return;
	auto* const made =
		engine.control([&](adapter::ChannelAdapter& adapter) { return new Unkind(engine, adapter, wanted); });
	// Without a thread, delays end when the program calls a verb.
	if (auto thread = engine::Thread::start("adversary", [made] { made->run(); })) {
		made->thread = std::move(*thread);
		made->has_thread = true;
	}
	made->thread.forget();
	unkind.store(made, std::memory_order_release);
	const std::string text = adversary::text_of(wanted);
	log::answer("adversary seed=%s model=%s", text.substr(0, text.find(':')).c_str(),
		std::string(name_of(wanted.model)).c_str());
}

void end_adversary() {
	Unkind* const u = unkind.load(std::memory_order_acquire);
	if (u) u->engine.control([u](adapter::ChannelAdapter&) { u->adversary.settle(); });
}

bool delays_event(SoftCq& cq) noexcept {
	Unkind* const u = unkind.load(std::memory_order_acquire);
	if (!u || !cq.gate || !u->has_thread) return false;
	const Nanoseconds delay = cq.gate->event_delay();
	if (delay == 0 || !u->late_events.hold(cq, monotonic_now() + delay)) return false;
	note_decision({.kind = adversary::Kind::events, .time = delay});
	u->note_change();
	return true;
}

void forget_event(const SoftCq& cq) {
	if (Unkind* const u = unkind.load(std::memory_order_acquire)) u->late_events.drop(cq);
}

void linger() noexcept {
	Unkind* const u = unkind.load(std::memory_order_acquire);
	if (!u || !wanted.has(adversary::Kind::connections)) return;
	const std::uint64_t bits = adversary::draw(
		*wanted.seed, adversary::Kind::connections, {0, 1, u->slow_verbs.fetch_add(1, std::memory_order_relaxed)});
	if (bits % 4 != 1) return;
	const Nanoseconds delay = adversary::slow_delay_of(bits >> 8);
	note_decision({.kind = adversary::Kind::connections, .time = delay});
	const timespec pause{0, static_cast<long>(delay)};
	nanosleep(&pause, nullptr);
}

void adverse_data_path(ibv_context_ops& ops) {
	if (!is_adverse()) return;
	plain = ops;
	ops.post_send = adverse_post_send;
	ops.poll_cq = adverse_poll_cq;
	ops.req_notify_cq = adverse_req_notify_cq;
}

void adverse_extended_post(SoftQp& sqp) {
	if (!is_adverse()) return;
	// Before the send queue's lock is taken, under which no thread may wait for the engine.
	replace(gentle.start_post, sqp.public_qp.wr_start, [](ibv_qp_ex* qp) {
		before_post(SoftQp::of(qp));
		gentle.start_post.load(std::memory_order_relaxed)(qp);
	});
	replace(gentle.complete_post, sqp.public_qp.wr_complete, [](ibv_qp_ex* qp) {
		const int error = gentle.complete_post.load(std::memory_order_relaxed)(qp);
		note_calls(1);
		return error;
	});
}

void adverse_extended_poll(SoftCq& cq) {
	if (!is_adverse()) return;
	cq.gate = std::make_unique<adversary::Gate>(wanted, ++queues_made);
	replace(gentle.start_poll, cq.public_cq.start_poll, adverse_start_poll);
	replace(gentle.next_poll, cq.public_cq.next_poll, adverse_next_poll);
}

}  // namespace verbena::verbs
