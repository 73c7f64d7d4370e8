// SPDX-License-Identifier: Apache-2.0
// Remotes: the agreement with each peer about how much may be in flight (room.h).
#include "nic/engine/room.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "nic/engine/remotes.h"
#include "nic/wire/gid_text.h"

namespace verbena::engine {

namespace {

wire::GidText peer_text(const std::uint8_t (&address)[16]) {
	wire::Gid gid;
	std::ranges::copy(address, gid.begin());
	return wire::text_of(gid);
}

}  // namespace

void Remotes::ask_for_room(transport::Outlet& outlet, wire::Qpn own, wire::Qpn peer) {
	if (outlet.lossless) return;
	Remote& remote = *static_cast<Remote*>(outlet.user);
	const auto question =
		remote.asker.begin(adapter_.context().now, own, peer, [] { return secure_random<std::uint64_t>(); });
	if (!question) return;
	send_room_message(remote.addresses(), *question);
	room_question_due_ = std::min(room_question_due_, remote.asker.due());
}

void Remotes::repeat_room_questions(Nanoseconds now) {
	if (now < room_question_due_) return;
	room_question_due_ = never;
	paths_.for_each([&](Remote& remote) {
		if (const auto question = remote.asker.repeat(now)) send_room_message(remote.addresses(), *question);
		room_question_due_ = std::min(room_question_due_, remote.asker.due());
	});
}

void Remotes::renew_room_questions(Nanoseconds now) {
	paths_.for_each([&](Remote& remote) {
		if (const auto question = remote.asker.renew(now, remote.published()))
			send_room_message(remote.addresses(), *question);
		room_question_due_ = std::min(room_question_due_, remote.asker.due());
	});
}

void Remotes::take_room(Remote& remote, const wire::RoomMessage& answer) {
	if (!remote.asker.has_asked(answer)) return;
	const wire::GidText peer = peer_text(remote.addresses().destination);
	if (const auto room = remote.asker.take(answer)) {
		remote.outlet.room = *room;
		log::debug("%s has room for %u KiB in flight", peer.bytes, *room >> 10);
	} else {
		log::debug("%s does not say how much room it has, with status 0x%04x", peer.bytes, answer.status);
	}
}

bool Remotes::take_room_message(std::span<const std::byte> datagram, const wire::AddressPair& addresses) {
	const auto message = wire::read_room_message(datagram);
	if (!message) return false;
	counters_.room_received += wire::traffic_of_management;
	if (message->is_answer) {
		paths_.for_each_answered_by(addresses, [&](Remote& remote) { take_room(remote, *message); });
		return true;
	}
	Remote* const remote = from(addresses);
	// A host without a path from here gets an answer too: its queue pair may be ready first.
	RoomGiver once;
	RoomGiver& giver = remote ? remote->giver : once;
	const std::uint32_t whole = room_of_buffer(udp_->receive_buffer_bytes(Remote::family_of(addresses)));
	const auto answer = giver.answer(*message, whole, adapter_.context().now);
	wire::AddressPair back = addresses;
	std::swap(back.source, back.destination);
	send_room_message(back, answer);
	return true;
}

// A socket that receives packets with these addresses was full.
void Remotes::note_overflow(const wire::AddressPair& addresses) {
	Remote* const remote = from(addresses);
	if (!remote) return;
	const auto answers = remote->giver.cut(adapter_.context().now);
	if (answers.empty()) return;
	for (const wire::RoomMessage& answer : answers) send_room_message(remote->addresses(), answer);
	log::warn(
		"packets from %s overflowed a socket's receive buffer; the peer now keeps at most %u KiB in flight (the "
		"sysctl net.core.rmem_max limits the buffer)",
		peer_text(addresses.source).bytes, answers[0].room >> 10);
}

// Without room in the outlet the message is lost: a question is repeated.
void Remotes::send_room_message(const wire::AddressPair& addresses, const wire::RoomMessage& message) {
	wire::AddressPair to = addresses;
	to.traffic_class = 0;
	to.hop_limit = 64;
	const auto outlet = management_outlet(to);
	if (outlet && adapter_.send_management(**outlet, to, wire::write_room_message(message)))
		counters_.room_sent += wire::traffic_of_management;
}

}  // namespace verbena::engine
