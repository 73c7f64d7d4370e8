// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/network.h"

#include "nic/trace/trace.h"

namespace verbena::faults {

using trace::Fault;
using transport::QueuePair;

namespace {

// A request that takes a receive of the responder: the first packet of a SEND, and the last one of
// a WRITE with immediate.
bool takes_receive(const wire::OpcodeFacts& facts) {
	if (facts.response || facts.transport != wire::Transport::rc) return false;
	return (facts.operation == wire::Operation::send && facts.first) ||
		(facts.operation == wire::Operation::write && facts.immediate);
}

}  // namespace

Identity Network::identify(adapter::ChannelAdapter& adapter, const Packet& packet, bool arrives) const {
	Identity identity{.opcode = static_cast<std::uint8_t>(packet.opcode), .arrives = arrives};
	const QueuePair* const qp = adapter.queue_pairs().find({packet.qpn});
	if (!qp) return identity;
	// A response has a PSN of the sequence of requests that it answers.
	const bool own_sequence = arrives == wire::facts(packet.opcode).response;
	const std::uint32_t first = own_sequence ? qp->cold->first_send_psn : qp->cold->first_receive_psn;
	identity.queue_pair = qp->cold->created;
	identity.number = (packet.psn.value - first) & 0xffffff;
	return identity;
}

void Network::note(Fault fault, const Packet& packet, const Identity& identity, std::uint32_t times) {
	++met_[static_cast<std::size_t>(fault)];
	if (!trace::on()) return;
	trace::write({.kind = trace::Kind::fault,
		.code = static_cast<std::uint8_t>(fault),
		.status = static_cast<std::uint8_t>(packet.opcode),
		.qpn = packet.qpn,
		.peer = packet.peer_qpn,
		.psn = packet.psn.value & 0xffffff,
		.id = times,
		.length = packet.bytes,
		.key = identity.queue_pair,
		.number = identity.number});
}

Network::Departure Network::leaves(adapter::ChannelAdapter& adapter, const Packet& packet, Nanoseconds now) {
	++sent_;
	const Identity identity = identify(adapter, packet, false);
	const Faults* const faults = spec_.find(packet.peer, identity.queue_pair);
	if (!faults) return {};
	const std::uint32_t times = repetitions_.count(identity);
	Departure departure{fate_of(*faults, seed_, identity, times), faults->bits_per_second};
	Fate& fate = departure.fate;
	const bool parted = faults->partition.contains(now - began_);
	const auto note_if = [&](bool met, Fault fault) {
		if (met) note(fault, packet, identity, times);
	};
	note_if(fate.breaks_queue_pair, Fault::qp_error);
	note_if(parted, Fault::parted);
	note_if(!parted && fate.lost, Fault::lost);
	fate.lost |= parted || fate.breaks_queue_pair;
	if (fate.lost) return departure;
	note_if(fate.duplicated, Fault::duplicated);
	note_if(fate.corrupted, Fault::corrupted);
	note_if(fate.reordered, Fault::reordered);
	return departure;
}

void Network::finds_line_full(adapter::ChannelAdapter& adapter, const Packet& packet) {
	note(Fault::line_full, packet, identify(adapter, packet, false), 0);
}

bool Network::refuses(adapter::ChannelAdapter& adapter, QueuePair& qp, const wire::Slot& slot) {
	if (!takes_receive(wire::facts(slot.opcode()))) return false;
	// Any other packet is a duplicate, or comes after a gap, and is answered as such.
	if (slot.psn().value != (qp.expected_psn & 0xffffff)) return false;
	wire::Gid peer;
	std::ranges::copy(qp.cold->attributes.destination_gid, peer.begin());
	const Packet packet{.qpn = qp.qpn,
		.peer_qpn = qp.destination_qpn,
		.peer = peer,
		.opcode = slot.opcode(),
		.psn = slot.psn(),
		.bytes = slot.length};
	const Identity identity = identify(adapter, packet, true);
	const Faults* const faults = spec_.find(peer, identity.queue_pair);
	if (!faults || faults->not_ready == 0) return false;
	const std::uint32_t times = repetitions_.count(identity);
	if (!finds_no_receive(*faults, seed_, identity, times)) return false;
	note(Fault::not_ready, packet, identity, times);
	return true;
}

std::string Network::summary() const {
	static constexpr const char* participles[] = {"lost", "lost in a partition", "duplicated", "reordered", "corrupted",
		"lost on a full line", "answered by RNR NAKs", "broke their queue pair"};
	static_assert(std::size(participles) == static_cast<std::size_t>(Fault::count));
	std::string text = "seed " + std::to_string(seed_) + ", " + std::to_string(sent_) + " packets sent";
	for (std::size_t i = 0; i < met_.size(); ++i)
		if (met_[i]) text += ", " + std::to_string(met_[i]) + " " + participles[i];
	return text;
}

}  // namespace verbena::faults
