// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/forger.h"

#include <algorithm>
#include <iterator>

namespace verbena::sim {

using transport::Psn;
namespace syndrome = wire::syndrome;

void forge_answer(Endpoint& victim, Endpoint& peer, std::uint8_t code, Psn psn) {
	wire::Slot slot{};
	slot.set_bth(wire::Opcode::rc_acknowledge, {victim.qp.qpn}, {static_cast<std::uint32_t>(psn) & 0xffffff},
		victim.qp.mtu_code << wire::slot_mtu_shift);
	slot.set_aeth(code, 0);
	Fabric& fabric = victim.host.fabric;
	transport::Outlet& from = fabric.outlet(victim.host, peer.host);
	fabric.pass(victim.host, [&] { victim.host.adapter.handle_slot(from, slot, nullptr, {}); });
}

Forger::Forger(Endpoint& victim, Endpoint& peer, Nanoseconds distance, std::uint64_t seed, ForgedNaks kinds)
	: victim_(victim), peer_(peer), distance_(distance), random_(seed), kinds_(kinds) {
	schedule();
}

void Forger::schedule() {
	Fabric& fabric = victim_.host.fabric;
	fabric.at(fabric.now() + random_.between(1, 2 * distance_), [this] {
		if (stopped_) return;
		forge();
		schedule();
	});
}

void Forger::forge() {
	constexpr std::uint8_t fatal[] = {
		syndrome::nak_invalid_request, syndrome::nak_remote_access, syndrome::nak_remote_operation, 0x7f};
	const Psn una = victim_.qp.una, received = std::max(una, peer_.qp.expected_psn);
	const Psn sent = std::max({una, victim_.qp.next_psn, victim_.qp.cold->recovery.sent_end});
	++forged_;
	switch (kinds_ == ForgedNaks::all ? random_.below(4) : 2) {
		case 0:
			return forge_answer(
				victim_, peer_, syndrome::rnr_nak | random_.below(32), random_.between(una, std::min(received, sent)));
		case 1:
			return forge_answer(
				victim_, peer_, syndrome::nak_sequence_error, random_.between(una, std::min(received, sent)));
		default:
			// Also those just beside the window.
			return forge_answer(
				victim_, peer_, fatal[random_.below(std::size(fatal))], random_.between(una - 2, sent + 2));
	}
}

}  // namespace verbena::sim
