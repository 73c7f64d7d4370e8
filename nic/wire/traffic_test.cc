// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/traffic.h"

#include <gtest/gtest.h>

#include "nic/wire/mad.h"
#include "nic/wire/packet.h"

namespace verbena::wire {
namespace {

Slot make(Opcode opcode, std::uint32_t length, unsigned mtu_code) {
	Slot slot{};
	slot.set_bth(opcode, {0x123456}, {100}, static_cast<std::uint8_t>(mtu_code << slot_mtu_shift));
	slot.length = length;
	return slot;
}

// As the UDP path sends it.
Traffic cut(const Slot& slot) {
	Traffic sum;
	for (std::uint32_t i = 0; i < packet_count(slot); ++i) sum += {1, piece_of(slot, i).wire_bytes()};
	return sum;
}

TEST(Traffic, SlotCountsAsThePacketsIntoWhichAPathWouldCutIt) {
	for (unsigned value = 0; value < 256; ++value) {
		const Opcode opcode{static_cast<std::uint8_t>(value)};
		const OpcodeFacts& f = facts(opcode);
		if (!f.known) continue;
		const bool payload = f.operation == Operation::send || f.operation == Operation::write ||
			f.operation == Operation::read_response;
		for (unsigned mtu_code = 1; mtu_code <= 5; ++mtu_code) {
			const std::uint32_t mtu = 128u << mtu_code;
			for (const std::uint32_t length :
				{0u, 1u, 2u, 3u, 4u, 255u, 256u, 257u, 1023u, 1024u, 1025u, 2048u, 2049u, 4096u, 4097u, 8191u, 8192u}) {
				if (length && (!payload || (f.transport == Transport::ud && length > mtu))) continue;
				// A run that does not end its message is a multiple of the path MTU.
				if (!f.last && (length % mtu || !length)) continue;
				const Slot slot = make(opcode, length, mtu_code);
				EXPECT_EQ(traffic_of(slot, length), cut(slot))
					<< "opcode " << value << ", " << length << " bytes, MTU " << mtu;
			}
		}
	}
}

TEST(Traffic, AcknowledgementRecordCountsAsAnAcknowledgePacket) {
	EXPECT_EQ(traffic_of_ack, cut(make(Opcode::rc_acknowledge, 0, 3)));
}

TEST(Traffic, ManagementDatagramOfOneHostCountsAsThePacketThatOtherHostsGet) {
	Slot local{};
	local.set_bth(management_datagram, general_services_qpn, {}, 1 << slot_mtu_shift);
	EXPECT_EQ(traffic_of(local, 40 + 256), cut(make(Opcode::ud_send_only, 256, 1)));
}

TEST(Traffic, ForwardedPacketDoesNotCountAgain) {
	Slot forwarded{};
	forwarded.set_bth(forwarded_packet, {}, {}, 0);
	EXPECT_EQ(traffic_of(forwarded, 1000), Traffic{});
}

}  // namespace
}  // namespace verbena::wire
