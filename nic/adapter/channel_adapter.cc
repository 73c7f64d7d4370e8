// SPDX-License-Identifier: Apache-2.0
#include "nic/adapter/channel_adapter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nic/transport/answers.h"
#include "nic/transport/completer.h"
#include "nic/transport/datagram.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/requester.h"
#include "nic/transport/responder.h"
#include "nic/transport/retry_timer.h"

namespace verbena::adapter {

using transport::ColdQueuePair;
using transport::Outlet;
using transport::QpState;
using transport::QpType;
using transport::QueuePair;

namespace {

// IBA 10.3.1: an error of the send queue alone (state SQE) leaves the receive queue working.
bool can_receive(const QueuePair& qp) {
	return qp.state == QpState::rts || qp.state == QpState::rtr || qp.state == QpState::sqd || qp.state == QpState::sqe;
}

}  // namespace

bool ChannelAdapter::attach_multicast(const MulticastMember& added) {
	for (const MulticastMember& member : multicast_)
		if (member.group == added.group && member.qp == added.qp) return false;
	multicast_.push_back(added);
	return true;
}

bool ChannelAdapter::detach_multicast(const wire::Gid& group, const QueuePair& qp) {
	return std::erase_if(multicast_,
			   [&](const MulticastMember& member) { return member.group == group && member.qp == &qp; }) != 0;
}

bool ChannelAdapter::is_multicast_member(const QueuePair& qp) const {
	return std::ranges::find(multicast_, &qp, &MulticastMember::qp) != multicast_.end();
}

void ChannelAdapter::handle_multicast(
	const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	bool any = false;
	for (std::size_t i = 0; i < multicast_.size(); ++i) {
		const auto& [group, qp, interface_index] = multicast_[i];
		if (std::memcmp(group.data(), addresses.destination, group.size()) != 0 || !can_receive(*qp)) continue;
		any = true;
		// A datagram is not delivered back to the queue pair that sent it.
		if (slot.deth.source_qp().value != qp->qpn) transport::handle_datagram(context_, *qp, slot, payload, addresses);
	}
	if (!any) ++context_.counters.dropped_no_qp;
}

void ChannelAdapter::transmit(QueuePair& qp) {
	if (!(qp.blocked & ~transport::blocked_window) || qp.state != QpState::rts) transport::transmit(context_, qp);
}

void ChannelAdapter::handle_slot(
	Outlet& from, const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	if (!context_.observer) [[likely]]
		return dispatch(from, slot, payload, addresses);
	if (context_.observer->arrived(from, slot, payload, addresses)) dispatch(from, slot, payload, addresses);
	context_.observer->handled();
}

void ChannelAdapter::dispatch(
	Outlet& from, const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	QueuePair* qp = table_.find(slot.destination());
	if (!qp && slot.destination() == wire::multicast_qpn && facts.deth) [[unlikely]]
		return handle_multicast(slot, payload, addresses);
	const auto drop = [&](std::uint64_t& counter) {
		++counter;
		// On one host the sender has no retransmission timer that would notice the silence, so it
		// gets a refusal.
		if (from.lossless && facts.known && facts.transport == wire::Transport::rc && !facts.response) {
			// Two processes may have two links. The refusal takes the link that carries the queue
			// pair's responses, so that it arrives behind them.
			Outlet& back = qp && qp->outlet && qp->outlet->peer == from.peer ? *qp->outlet : from;
			context_.refuse({&back, slot.psn(), slot.source(), slot.destination(), transport::syndrome_not_receiving});
		}
	};
	if (!qp || !can_receive(*qp) || !facts.known) [[unlikely]] {
		if (slot.opcode() == wire::diagnosis_opcode) return note_diagnosis(from, qp, slot);
		return drop(!qp ? context_.counters.dropped_no_qp : context_.counters.dropped_wrong_state);
	}
	const QpType type = facts.transport == wire::Transport::rc ? QpType::rc
		: facts.transport == wire::Transport::uc               ? QpType::uc
															   : QpType::ud;
	if (type != qp->type) [[unlikely]]
		return drop(context_.counters.dropped_malformed);
	if (type == QpType::ud) return transport::handle_datagram(context_, *qp, slot, payload, addresses);
	// IBA 9.6.1: a connected queue pair accepts packets of its own peer only.
	if (qp->outlet->peer != from.peer) [[unlikely]]
		return drop(context_.counters.dropped_wrong_state);
	if (!facts.response) return transport::handle_request(context_, *qp, slot, payload);
	if (facts.operation == wire::Operation::acknowledge)
		transport::handle_acknowledgement(context_, *qp, slot.syndrome(), slot.psn());
	else transport::handle_response(context_, *qp, slot, payload);
}

// Keeps the peer's reason for the NAK that follows. Without memory there is none.
void ChannelAdapter::note_diagnosis(const Outlet& from, QueuePair* qp, const wire::Slot& slot) {
	if (!from.lossless || !qp || qp->type != QpType::rc || !qp->outlet || qp->outlet->peer != from.peer) return;
	auto& known = qp->cold->diagnosis;
	if (!known) known.reset(new (std::nothrow) wire::Diagnosis);
	if (known) *known = wire::Diagnosis::of(slot);
}

void ChannelAdapter::handle_shared(
	Outlet& from, const wire::Slot& slot, const std::byte* payload, const wire::SlotReader& shared_by) {
	static constexpr wire::AddressPair no_addresses{};
	if (context_.observer && !context_.observer->arrived(from, slot, payload, no_addresses)) [[unlikely]]
		return context_.observer->handled();
	QueuePair* qp = table_.find(slot.destination());
	if (!qp || !can_receive(*qp) || qp->type != QpType::rc || qp->outlet->peer != from.peer)
		++context_.counters.dropped_wrong_state;
	else transport::handle_shared_response(context_, *qp, slot, payload, shared_by);
	if (context_.observer) [[unlikely]]
		context_.observer->handled();
}

inline void ChannelAdapter::dispatch_ack(const Outlet& from, wire::AckRecord record) {
	QueuePair* qp = table_.find(record.destination());
	if (!qp || qp->type != QpType::rc || !qp->outlet || qp->outlet->peer != from.peer) return;
	transport::handle_acknowledgement(context_, *qp, record.syndrome(), record.psn());
}

void ChannelAdapter::handle_ack(Outlet& from, wire::AckRecord record) {
	if (context_.observer) [[unlikely]]
		return observe_ack(from, record);
	dispatch_ack(from, record);
}

void ChannelAdapter::observe_ack(Outlet& from, wire::AckRecord record) {
	context_.observer->acknowledgement_arrived(from, record);
	dispatch_ack(from, record);
}

void ChannelAdapter::handle_management(
	Outlet& back, std::span<const std::byte> datagram, const wire::AddressPair& addresses) {
	if (datagram.size() != wire::mad_size) return;
	cm::Route route = route_through(addresses, &back);
	std::swap(route.addresses.source, route.addresses.destination);
	connections_.handle_mad(context_.now, route, datagram.first<wire::mad_size>());
}

// Sends the CM's messages in order. A message that finds no room waits for the next pass, which is
// sooner than the CM's own retry, and does not hold up those to other outlets. A message to a dead
// peer is discarded.
void ChannelAdapter::send_management() {
	const void* full = nullptr;
	connections_.take_outgoing([&](const cm::ConnectionManager::Outgoing& out) {
		auto* const outlet = static_cast<Outlet*>(out.route.carrier);
		if (!outlet || outlet->closed) return true;
		if (outlet == full) return false;
		if (context_.observer && context_.observer->holds_message()) return false;
		if (send_management(*outlet, out.route.addresses, out.mad)) return true;
		full = outlet;
		return false;
	});
}

bool ChannelAdapter::send_management(Outlet& outlet, const wire::AddressPair& addresses, const wire::Mad& mad) {
	static_assert(wire::Direction::slot_count == wire::Direction::address_count);
	// On one host no IP header carries the addresses, so they go before the datagram.
	const std::size_t head = outlet.lossless ? sizeof(wire::AddressPair) : 0;
	const auto length = static_cast<std::uint32_t>(head + mad.size());
	const auto index =
		outlet.addressed ? static_cast<std::uint8_t>(outlet.slots.published()) : transport::cm_address_index;
	const auto reserved = outlet.slots.reserve(length, sizeof(wire::Deth));
	if (!reserved.slot) return false;
	std::memcpy(reserved.payload, &addresses, head);
	std::memcpy(reserved.payload + head, mad.data(), mad.size());
	wire::Slot& slot = *reserved.slot;
	constexpr std::uint8_t mtu_256 = 1;
	slot.set_bth(outlet.lossless ? wire::management_datagram : wire::Opcode::ud_send_only, wire::general_services_qpn,
		{}, mtu_256 << wire::slot_mtu_shift);
	slot.payload_line = reserved.payload_line;
	slot.deth = {wire::general_services_q_key, wire::general_services_qpn.value << 8 | index};
	if (!outlet.lossless) outlet.slots.direction()->addresses[index] = addresses;
	context_.publish(outlet, &slot, length, wire::general_services_qpn);
	return true;
}

void ChannelAdapter::handle_timeouts() {
	connections_.handle_timeouts(context_.now);
	context_.timers.advance(context_.now,
		[this](TimerEntry& entry) { transport::handle_retry_timer(context_, *static_cast<ColdQueuePair&>(entry).qp); });
}

bool ChannelAdapter::resume(Outlet& outlet) {
	return outlet.waiting_first && transport::resume_waiting(context_, outlet);
}

bool ChannelAdapter::finish_pass(Acks acks) {
	bool some_wait = false;
	if (connections_.next_outgoing()) [[unlikely]]
		send_management();
	// The list is taken whole: a queue pair whose outlet is full goes onto a new one.
	QueuePair* qp = context_.responding_first;
	context_.responding_first = context_.responding_last = nullptr;
	while (qp) {
		QueuePair* next = qp->next_responding;
		qp->on_responding_list = false;
		if (acks == Acks::may_wait && transport::ack_can_wait(*qp)) {
			context_.schedule_responses(*qp);
			some_wait = true;
			qp = next;
			continue;
		}
		if (!qp->outlet || qp->outlet->closed) qp->pending_answer = transport::ack_none;
		else if (!transport::send_responses(context_, *qp)) context_.schedule_responses(*qp);
		qp = next;
	}
	if (!context_.refusals.empty()) [[unlikely]]
		send_refusals();
	return some_wait;
}

// A refusal must not overtake pending responses or a NAK of its queue pair, so it waits until they
// have left. It travels in a slot, because a peer reads slots after acknowledgement records.
void ChannelAdapter::send_refusals() {
	std::erase_if(context_.refusals, [this](const transport::Refusal& refusal) {
		if (refusal.to->closed) return true;
		if (const QueuePair* qp = table_.find(refusal.destination); qp && qp->on_responding_list) return false;
		const auto reserved = refusal.to->slots.reserve(0, 0);
		if (!reserved.slot) return false;
		reserved.slot->set_bth(wire::Opcode::rc_acknowledge, refusal.source, refusal.psn, 0);
		reserved.slot->payload_line = reserved.payload_line;
		reserved.slot->set_aeth(refusal.syndrome, 0);
		context_.publish(*refusal.to, reserved.slot, 0);
		return true;
	});
}

Nanoseconds ChannelAdapter::poll_timeout() const {
	return std::min(context_.timers.next_expiry(), connections_.poll_timeout());
}

void ChannelAdapter::fail_outlet(Outlet& outlet) {
	outlet.closed = true;
	table_.for_each([&](QueuePair& qp) {
		if (qp.outlet != &outlet || qp.type != QpType::rc || !can_receive(qp)) return;
		if (qp.una != qp.next_psn || !qp.sq_empty())
			transport::fail_send_queue(context_, qp, queues::Status::retry_exceeded);
	});
	connections_.fail_carrier(context_.now, &outlet);
	resume(outlet);
}

}  // namespace verbena::adapter
