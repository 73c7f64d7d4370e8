// SPDX-License-Identifier: Apache-2.0
// The adversary's messages that may be lost or late: datagrams, and those of connections.
#include <utility>

#include "nic/adversary/adversary.h"

namespace verbena::adversary {

using transport::QueuePair;

namespace {

// One datagram of this number is lost, or overtaken.
constexpr std::uint64_t lost_every = 32, overtaken_every = 16;
constexpr std::size_t datagrams_kept_max = 256;
// One message of this number of a connection's set-up or end waits.
constexpr std::uint64_t message_held_every = 4;

}  // namespace

// Whether the packet of UD or UC is lost or comes later.
bool Adversary::keeps(
	const QueuePair& qp, const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	const std::uint64_t bits = draw_for(Kind::datagrams, {qp.cold->created, 0, datagrams_seen_[qp.qpn]++});
	if (bits == 0) return false;
	if (bits % lost_every == 1) {
		decided_({.kind = Kind::datagrams, .qpn = qp.qpn, .bytes = slot.length});
		return true;
	}
	if (bits % overtaken_every != 2 || kept_.size() >= datagrams_kept_max) return false;
	const Delay delay = delay_of(bits >> 8);
	kept_.push_back({now().after(delay), slot, {payload, payload + slot.length}, addresses});
	decided_({.kind = Kind::datagrams,
		.qpn = qp.qpn,
		.bytes = slot.length,
		.observations = delay.observations,
		.time = delay.time});
	note_due();
	return true;
}

bool Adversary::holds_message() noexcept {
	if (next_ && next_->holds_message()) return true;
	if (settled_ || !spec_.has(Kind::connections)) return false;
	if (message_due_) return true;
	if (!std::exchange(message_waited_, false)) {
		const std::uint64_t bits = draw(*spec_.seed, Kind::connections, {0, 0, messages_});
		if (bits % message_held_every == 1) {
			const Nanoseconds delay = slow_delay_of(bits >> 8);
			message_due_ = now().time + delay;
			decided_({.kind = Kind::connections, .time = delay});
			note_due();
			return true;
		}
	}
	++messages_;
	return false;
}

// --- Passed on alone

void Adversary::sent(
	const transport::Outlet& outlet, const wire::Slot& slot, std::uint32_t length, std::uint32_t source) noexcept {
	if (next_) next_->sent(outlet, slot, length, source);
}
void Adversary::acknowledged(const QueuePair& qp, std::uint8_t syndrome, wire::Psn24 psn) noexcept {
	if (next_) next_->acknowledged(qp, syndrome, psn);
}
void Adversary::acknowledgement_arrived(const transport::Outlet& from, const wire::AckRecord& record) noexcept {
	if (next_) next_->acknowledgement_arrived(from, record);
}
void Adversary::waits(const QueuePair& qp, transport::Waits wait, Nanoseconds pause) noexcept {
	if (next_) next_->waits(qp, wait, pause);
}

}  // namespace verbena::adversary
