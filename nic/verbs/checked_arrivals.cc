// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked_arrivals.h"

#include <cstring>

#include "nic/engine/boundary.h"
#include "nic/memory/guarded_copy.h"
#include "nic/verbs/checked.h"
#include "nic/wire/packet.h"

namespace verbena::verbs {

using transport::QueuePair;
using wire::Slot;

namespace {

// The two high bits of an RNR NAK's syndrome are 01 (IBA 9.7.5.2.1).
bool is_rnr(std::uint8_t syndrome) { return (syndrome & 0xe0) == 0x20; }

}  // namespace

void CheckedArrivals::sent(
	const transport::Outlet& outlet, const Slot& slot, std::uint32_t length, std::uint32_t source) noexcept {
	if (next_) next_->sent(outlet, slot, length, source);
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	if (!facts.known || !facts.aeth || !is_rnr(slot.syndrome())) return;
	engine::attempt([&] { checked()->receiver_not_ready(source); });
}

void CheckedArrivals::acknowledged(const QueuePair& qp, std::uint8_t syndrome, wire::Psn24 psn) noexcept {
	if (next_) next_->acknowledged(qp, syndrome, psn);
	if (is_rnr(syndrome)) engine::attempt([&] { checked()->receiver_not_ready(qp.qpn); });
}

// The memory that a request is about, or null if the request will be refused.
std::byte* CheckedArrivals::find(
	const QueuePair& qp, std::uint32_t key, std::uint64_t address, std::uint32_t length, std::uint8_t access) {
	if ((qp.remote_access & access) != access) return nullptr;
	memory::RegionCache none;
	std::byte* const at = adapter_.context().keys.resolve(none, key, address, length, access, qp);
	if (!at) {
		checked()->wrong_key(qp.qpn, key);
		return nullptr;
	}
	char byte;
	for (const std::uint32_t offset : {0u, length ? length - 1 : 0u})
		if (length && !memory::guarded_copy(&byte, at + offset, 1)) {
			checked()->memory_is_gone(qp.qpn, key, reinterpret_cast<std::uint64_t>(at + offset));
			return nullptr;
		}
	if (length) checked()->memory_is_used(qp.qpn, key, reinterpret_cast<std::uint64_t>(at), length);
	return at;
}

// The request that the message will fill, if it is refused for no reason.
void CheckedArrivals::note_send(const QueuePair& qp) {
	queues::ReceiveWqe* const next = qp.receive || !qp.receive_queue ? nullptr : qp.receive_queue->front();
	if (next) checked()->receive_is_filled(qp.qpn, next->wr_id, {next->segments(), next->segment_count});
}

void CheckedArrivals::note_write(const QueuePair& qp, const Slot& slot, bool last) {
	if (slot.reth.dma_length == 0) return;
	const std::byte* const at =
		find(qp, slot.reth.rkey.value, slot.reth.address, slot.reth.dma_length, memory::remote_write);
	if (!at) return;
	const auto address = reinterpret_cast<std::uint64_t>(at);
	checked()->write_arrives(qp.qpn, address, slot.reth.dma_length, last, monotonic_now());
	polled_writes_.begins(qp.qpn, address, slot.reth.dma_length);
}

void CheckedArrivals::note_atomic(const QueuePair& qp, const Slot& slot) {
	std::byte* const at = find(qp, slot.atomic.rkey.value, slot.atomic.address, 8, memory::remote_atomic);
	std::uint64_t before = 0;
	if (!at || slot.atomic.address % 8 || !memory::guarded_copy(&before, at, sizeof before)) return;
	const std::uint64_t operand = slot.atomic.swap_or_add;
	const bool add = wire::facts(slot.opcode()).operation == wire::Operation::fetch_add;
	const std::uint64_t after = add ? before + operand : before == slot.atomic.compare ? operand : before;
	checked()->atomic_arrives(qp.qpn, reinterpret_cast<std::uint64_t>(at), before, after, monotonic_now());
}

void CheckedArrivals::note(const QueuePair& qp, const Slot& slot, const wire::OpcodeFacts& facts) {
	using enum wire::Operation;
	if (facts.atomic_eth) return note_atomic(qp, slot);
	if (facts.operation == send || facts.immediate) polled_writes_.note_message(qp.qpn);
	switch (facts.operation) {
		case send:
			if (facts.first) note_send(qp);
			return;
		case write:
			if (facts.first) note_write(qp, slot, facts.last);
			else checked()->write_goes_on(qp.qpn, facts.last, monotonic_now());
			if (facts.last && !facts.immediate) polled_writes_.look(qp.qpn);
			return;
		case read_request:
			find(qp, slot.reth.rkey.value, slot.reth.address, slot.reth.dma_length, memory::remote_read);
			return;
		default: return;
	}
}

bool CheckedArrivals::arrived(const transport::Outlet& from, const Slot& published, const std::byte* payload,
	const wire::AddressPair& addresses) noexcept {
	if (next_ && !next_->arrived(from, published, payload, addresses)) return false;
	// A peer that shares the memory may write to it.
	Slot slot;
	std::memcpy(&slot, &published, sizeof slot);
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	if (!facts.known || facts.response) return true;
	const QueuePair* const qp = adapter_.queue_pairs().find(slot.destination());
	if (!qp) return true;
	if (!facts.deth) {
		// A duplicate is not executed again.
		if (!qp->outlet || qp->outlet->peer != from.peer || slot.psn().value != (qp->expected_psn & 0xffffff))
			return true;
	}
	engine::attempt([&] { note(*qp, slot, facts); });
	return true;
}

void CheckedArrivals::ends(QueuePair& qp) noexcept {
	engine::attempt([&] { checked()->writes_end(qp.qpn); });
	polled_writes_.forget(qp.qpn);
	if (next_) next_->ends(qp);
}

void CheckedArrivals::received(const queues::Completion& completion) noexcept {
	engine::attempt([&] { checked()->receive_has_completed(completion.qpn, completion.wr_id); });
	if (next_) next_->received(completion);
}

// --- Passed on alone

void CheckedArrivals::handled() noexcept {
	if (next_) next_->handled();
}
void CheckedArrivals::acknowledgement_arrived(const transport::Outlet& from, const wire::AckRecord& record) noexcept {
	if (next_) next_->acknowledgement_arrived(from, record);
}
void CheckedArrivals::finished(
	const QueuePair& qp, const queues::SendWqe& wqe, queues::Status status, bool direct) noexcept {
	if (next_) next_->finished(qp, wqe, status, direct);
}
void CheckedArrivals::waits(const QueuePair& qp, transport::Waits wait, Nanoseconds pause) noexcept {
	if (next_) next_->waits(qp, wait, pause);
}
bool CheckedArrivals::holds_message() noexcept { return next_ && next_->holds_message(); }
void CheckedArrivals::withdrawn() noexcept {
	if (next_) next_->withdrawn();
}

void check_arrivals(engine::Engine& engine) {
	if (!checked()) return;
	engine.control([](adapter::ChannelAdapter& adapter) {
		// Never destroyed, as the process's engine is not either. A trace may have the place.
		adapter.context().observer = new CheckedArrivals(adapter, adapter.context().observer);
	});
}

}  // namespace verbena::verbs
