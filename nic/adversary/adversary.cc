// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/adversary.h"

#include <algorithm>
#include <cstring>

#include "base/prefetch.h"
#include "nic/transport/answers.h"
#include "nic/transport/datagram.h"
#include "nic/transport/requester.h"
#include "nic/transport/responder.h"

namespace verbena::adversary {

using transport::QpState;
using transport::QpType;
using transport::QueuePair;
using wire::Operation;

namespace {

// One post of this number holds the queue pair's requests back.
constexpr std::uint64_t held_every = 4;
// The lines of a longer READ are fetched together.
constexpr std::uint32_t early_bytes_max = 4096;

// One message of this number takes another receive than the oldest, among this many.
constexpr std::uint64_t exchanged_every = 4;
constexpr std::uint32_t receives_considered = 8;

// The packet that this thread handles: which payload the copies of the transport come from.
struct Arrival {
	Adversary* adversary = nullptr;
	const std::byte* payload = nullptr;
	std::size_t length = 0;
	bool atomic = false;
	std::uint64_t bits = 0;  // the draw of an atomic
	Placement::Source source;
};
thread_local constinit Arrival arrival;

// The READ whose response this thread sends: lines that were fetched early.
thread_local constinit const void* early_from = nullptr;
thread_local constinit const std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>* early_lines = nullptr;

memory::Routines plain;

}  // namespace

struct Adversary::Decorator {
	static bool copy(void* to, const void* from, std::size_t n) {
		const auto* const source = static_cast<const std::byte*>(from);
		if (arrival.adversary && source >= arrival.payload && source < arrival.payload + arrival.length)
			return arrival.adversary->place(static_cast<std::byte*>(to), source, n);
		if (!plain.copy(to, from, n)) return false;
		if (early_lines && early_from == from) [[unlikely]]
			for (const auto& [offset, bytes] : *std::exchange(early_lines, nullptr))
				if (offset + bytes.size() <= n)
					std::memcpy(static_cast<std::byte*>(to) + offset, bytes.data(), bytes.size());
		return true;
	}
	// True: the atomic is to store its result later. The value of the word is then in `original`.
	static bool is_late(std::uint64_t* at, std::uint64_t* original) {
		return arrival.adversary && arrival.atomic && arrival.adversary->begin_atomic(at) &&
			plain.fetch_add(at, 0, original);
	}
	static bool compare_swap(std::uint64_t* at, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
		if (!is_late(at, original)) return plain.compare_swap(at, compare, swap, original);
		if (*original == compare) arrival.adversary->end_atomic_later(at, swap);
		return true;
	}
	static bool fetch_add(std::uint64_t* at, std::uint64_t add, std::uint64_t* original) {
		if (!is_late(at, original)) return plain.fetch_add(at, add, original);
		arrival.adversary->end_atomic_later(at, *original + add);
		return true;
	}
	static const memory::Routines& installed() {
		static const bool once = [] {
			plain = memory::replace_routines({copy, compare_swap, fetch_add});
			return true;
		}();
		static_cast<void>(once);
		return plain;
	}
};

Adversary::Adversary(const Spec& spec, adapter::ChannelAdapter& adapter, transport::Observer* next,
	std::function<void()> changed, std::function<void(const Decision&)> decided)
	: spec_(spec),
	  adapter_(adapter),
	  next_(next),
	  changed_(std::move(changed)),
	  decided_(std::move(decided)),
	  placement_(spec, Decorator::installed()) {}

Moment Adversary::now() const { return {observations_.load(std::memory_order_relaxed), adapter_.context().now}; }

// 0 without the kind.
std::uint64_t Adversary::draw_for(Kind kind, const Identity& identity) const {
	return spec_.has(kind) ? draw(*spec_.seed, kind, identity) : 0;
}

bool Adversary::observe() {
	return observations_.fetch_add(1, std::memory_order_relaxed) + 1 >=
		due_observations_.load(std::memory_order_relaxed);
}

void Adversary::note_due() {
	Moment first = placement_.due();
	const auto include = [&](const Moment& due) {
		first = {std::min(first.observations, due.observations), std::min(first.time, due.time)};
	};
	for (const auto& [qpn, parked] : parked_) include(parked.due);
	for (const auto& [qpn, due] : held_) include(due);
	for (const Datagram& datagram : kept_) include(datagram.due);
	if (message_due_) include({no_moment.observations, *message_due_});
	due_observations_.store(first.observations, std::memory_order_relaxed);
	if (due_time_.exchange(first.time, std::memory_order_relaxed) > first.time) changed_();
}

void Adversary::advance(Nanoseconds time) {
	const Moment now{observations_.load(std::memory_order_relaxed), time};
	placement_.advance(now);
	std::vector<std::uint32_t> due;
	for (const auto& [qpn, parked] : parked_)
		if (parked.due.reached(now)) due.push_back(qpn);
	for (const std::uint32_t qpn : due)
		if (QueuePair* const qp = adapter_.queue_pairs().find({qpn})) unpark(*qp);
	due.clear();
	for (const auto& [qpn, moment] : held_)
		if (moment.reached(now)) due.push_back(qpn);
	for (const std::uint32_t qpn : due)
		if (QueuePair* const qp = adapter_.queue_pairs().find({qpn})) release(*qp);
	std::vector<Datagram> ready;
	std::erase_if(kept_, [&](Datagram& datagram) {
		if (!datagram.due.reached(now)) return false;
		ready.push_back(std::move(datagram));
		return true;
	});
	for (const Datagram& datagram : ready) deliver(datagram);
	if (message_due_ && *message_due_ <= time) {
		message_due_.reset();
		message_waited_ = true;
	}
	note_due();
}

void Adversary::settle() {
	settled_ = true;
	placement_.drain_all();
	advance(never - 1);
}

// --- Bytes that arrive

bool Adversary::place(std::byte* to, const std::byte* from, std::size_t n) {
	Placement::Source source = arrival.source;
	source.identity.part = static_cast<std::uint32_t>(from - arrival.payload);
	const std::size_t before = placement_.held();
	const bool placed = placement_.place(source, to, from, n, now());
	if (placement_.held() > before) {
		const Moment due = placement_.newest_due(source), here = now();
		decided_({.kind = source.side == Side::responder ? Kind::placement : Kind::reads,
			.qpn = source.qpn,
			.bytes = n,
			.observations = std::max(due.observations, here.observations + 1) - here.observations,
			.time = std::max(due.time, here.time) - here.time});
	}
	note_due();
	return placed;
}

// A remote atomic in two steps. Another one on the same word waits for the second step, so remote
// atomics are atomic towards each other; the processor's stores between the steps are lost. The
// response is sent after the second step.
bool Adversary::begin_atomic(const std::uint64_t* at) {
	placement_.drain_atomics(at);
	QueuePair* const qp = adapter_.queue_pairs().find({arrival.source.qpn});
	if (arrival.bits % 2 == 0 || !qp || !park(*qp, Kind::atomics, delay_of(arrival.bits >> 8))) return false;
	note_due();
	return true;
}

void Adversary::end_atomic_later(std::uint64_t* at, std::uint64_t value) {
	placement_.store_later(arrival.source, at, value);
}

bool Adversary::arrived(const transport::Outlet& from, const wire::Slot& slot, const std::byte* payload,
	const wire::AddressPair& addresses) noexcept {
	arrival = {};
	if (next_ && !next_->arrived(from, slot, payload, addresses)) return false;
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	QueuePair* const qp = adapter_.queue_pairs().find(slot.destination());
	if (!qp || !facts.known) return true;
	try {
		if (qp->type != QpType::rc && keeps(*qp, slot, payload, addresses)) return false;
		const Side side = facts.response ? Side::requester : Side::responder;
		const std::uint32_t first = facts.response ? qp->cold->first_send_psn : qp->cold->first_receive_psn;
		const Identity identity{qp->cold->created,
			static_cast<std::uint32_t>(side) << 8 | static_cast<std::uint8_t>(slot.opcode()),
			(slot.psn().value - first) & 0xffffff};
		arrival = {this, payload, payload ? slot.length : 0, false, 0,
			{qp->qpn, side, facts.response ? 0 : std::uint64_t{qp->msn}, identity}};
		if (qp->type != QpType::rc || facts.response) return true;
		if (facts.operation == Operation::send ? facts.first : facts.immediate) choose_receive(*qp, identity);
		arrival.atomic = facts.operation == Operation::compare_swap || facts.operation == Operation::fetch_add;
		if (!arrival.atomic && facts.operation != Operation::read_request) return true;
		placement_.drain(qp->qpn, Side::responder);
		if (arrival.atomic) arrival.bits = draw_for(Kind::atomics, identity);
		else read_arrives(*qp, slot, draw_for(Kind::reads, identity));
		note_due();
	} catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is kind to this packet
	}
	return true;
}

// A message is about to take a receive. Its completion comes in the order of the messages, as ever.
void Adversary::choose_receive(const QueuePair& qp, const Identity& identity) {
	if (spec_.model != Model::loose || !qp.receive_queue || qp.receive) return;
	const std::uint32_t candidates = std::min(qp.receive_queue->posted(), receives_considered);
	const std::uint64_t bits = draw_for(Kind::receives, identity);
	if (candidates < 2 || bits % exchanged_every != 1) return;
	qp.receive_queue->exchange(1 + static_cast<std::uint32_t>(bits >> 8) % (candidates - 1));
	decided_({.kind = Kind::receives, .qpn = qp.qpn});
}

// The next bytes at the address of this payload are others: inline data of the program's, for
// example, on a stack that was this library's.
void Adversary::handled() noexcept {
	arrival = {};
	if (next_) next_->handled();
}

void Adversary::received(const queues::Completion& completion) noexcept {
	placement_.drain(completion.qpn, Side::responder);
	if (next_) next_->received(completion);
}

void Adversary::finished(const QueuePair& qp, const queues::SendWqe& wqe, queues::Status status, bool direct) noexcept {
	placement_.drain(qp.qpn, Side::requester);
	if (next_) next_->finished(qp, wqe, status, direct);
}

// --- READs

// Fetches some lines of the READ now, and the rest when the response is sent.
void Adversary::read_arrives(QueuePair& qp, const wire::Slot& slot, std::uint64_t bits) {
	const bool alone = qp.cold->pending_count == 0 && !parked_.contains(qp.qpn);
	if (bits % 2 == 0) return;
	Parked* const parked = park(qp, Kind::reads, delay_of(bits));
	const std::uint32_t length = slot.reth.dma_length;
	if (!parked || !alone || bits >> 63 || length == 0 || length > early_bytes_max) return;
	const std::byte* const from = adapter_.context().keys.resolve(
		qp.receive_cache, slot.reth.rkey.value, slot.reth.address, length, memory::remote_read, qp);
	if (!from) return;
	parked->from = from;
	parked->length = length;
	Random random(bits);
	const auto begin = reinterpret_cast<std::uintptr_t>(from);
	for (std::uintptr_t at = begin; at < begin + length; at = (at / cache_line + 1) * cache_line) {
		if (!random.chance(0.5)) continue;
		const std::uintptr_t end = std::min<std::uintptr_t>(begin + length, (at / cache_line + 1) * cache_line);
		std::vector<std::byte> bytes(end - at);
		if (plain.copy(bytes.data(), reinterpret_cast<const void*>(at), bytes.size()))
			parked->early.emplace_back(static_cast<std::uint32_t>(at - begin), std::move(bytes));
	}
}

// Takes the queue pair off the list of those with responses to send, for a while: a queue pair that
// is marked as on the list, and is not, sends none. Null: its responses wait already.
Adversary::Parked* Adversary::park(QueuePair& qp, Kind kind, const Delay& delay) {
	if (parked_.contains(qp.qpn)) return nullptr;
	decided_({.kind = kind, .qpn = qp.qpn, .observations = delay.observations, .time = delay.time});
	Parked& parked = parked_[qp.qpn];
	parked.due = now().after(delay);
	if (std::exchange(qp.on_responding_list, true)) adapter_.context().unschedule_responses(qp);
	return &parked;
}

void Adversary::unpark(QueuePair& qp) {
	const auto at = parked_.find(qp.qpn);
	if (at == parked_.end()) return;
	const Parked parked = std::move(at->second);
	parked_.erase(at);
	placement_.drain(qp.qpn, Side::responder);
	qp.on_responding_list = false;
	if (!qp.outlet || qp.outlet->closed) return;
	arrival = {};
	early_from = parked.from;
	early_lines = &parked.early;
	const bool sent = transport::send_responses(adapter_.context(), qp);
	early_lines = nullptr;
	if (!sent) adapter_.context().schedule_responses(qp);
}

// --- Requests

void Adversary::before_post(QueuePair& qp) {
	if (qp.state != QpState::rts || held_.contains(qp.qpn)) return;
	const std::uint64_t bits =
		draw_for(Kind::gather, {qp.cold->created, 0, qp.sq_head.load(std::memory_order_relaxed)});
	if (bits % held_every != 1) return;
	const Delay delay = delay_of(bits >> 8);
	decided_({.kind = Kind::gather, .qpn = qp.qpn, .observations = delay.observations, .time = delay.time});
	held_[qp.qpn] = now().after(delay);
	qp.blocked |= transport::blocked_held;
	note_due();
}

void Adversary::release(QueuePair& qp) {
	held_.erase(qp.qpn);
	qp.blocked &= static_cast<std::uint8_t>(~transport::blocked_held);
	arrival = {};
	if (qp.state == QpState::rts || qp.state == QpState::sqd) adapter_.transmit(qp);
}

// A datagram that was overtaken.
void Adversary::deliver(const Datagram& datagram) {
	QueuePair* const qp = adapter_.queue_pairs().find(datagram.slot.destination());
	if (!qp || qp->state == QpState::reset || qp->state == QpState::init || qp->state == QpState::error) return;
	arrival = {};
	if (qp->type == QpType::ud)
		transport::handle_datagram(adapter_.context(), *qp, datagram.slot, datagram.payload.data(), datagram.addresses);
	else if (qp->type == QpType::uc)
		transport::handle_request(adapter_.context(), *qp, datagram.slot, datagram.payload.data());
}

// --- The end of a queue pair, and of rights

void Adversary::ends(QueuePair& qp) noexcept {
	unpark(qp);
	placement_.drain(qp.qpn, Side::responder);
	placement_.drain(qp.qpn, Side::requester);
	held_.erase(qp.qpn);
	qp.blocked &= static_cast<std::uint8_t>(~transport::blocked_held);
	if (next_) next_->ends(qp);
}

void Adversary::withdrawn() noexcept {
	placement_.drain_all();
	if (next_) next_->withdrawn();
}

}  // namespace verbena::adversary
