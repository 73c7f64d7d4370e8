// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/bth.h"

#include "nic/wire/big_endian.h"

namespace verbena::wire {

void Bth::write(std::span<std::byte, size> to) const {
	store_be8(&to[0], static_cast<std::uint8_t>(opcode));
	store_be8(&to[1], static_cast<std::uint8_t>(solicited_event << 7 | (pad_count & 3) << 4));
	store_be16(&to[2], p_key);
	store_be32(&to[4], std::uint32_t{congestion_notified} << 30 | (destination.value & 0xffffff));
	store_be32(&to[8], std::uint32_t{ack_requested} << 31 | (psn.value & 0xffffff));
}

std::optional<BthView> BthView::over(std::span<const std::byte> packet) {
	if (packet.size() < Bth::size) return std::nullopt;
	return BthView(packet.first<Bth::size>());
}

std::uint8_t BthView::version() const { return load_be8(&bytes_[1]) & 0x0f; }

Bth BthView::read() const {
	const std::uint8_t flags = load_be8(&bytes_[1]);
	const std::uint32_t to = load_be32(&bytes_[4]);
	const std::uint32_t sequence = load_be32(&bytes_[8]);
	return {
		.opcode = Opcode{load_be8(&bytes_[0])},
		.solicited_event = (flags & 0x80) != 0,
		.pad_count = static_cast<std::uint8_t>(flags >> 4 & 3),
		.p_key = load_be16(&bytes_[2]),
		.congestion_notified = (to >> 30 & 1) != 0,
		.destination = Qpn{to & 0xffffff},
		.ack_requested = (sequence >> 31) != 0,
		.psn = Psn24{sequence & 0xffffff},
	};
}

}  // namespace verbena::wire
