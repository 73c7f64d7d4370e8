// SPDX-License-Identifier: Apache-2.0
// Base Transport Header: the first 12 bytes of every RoCEv2 packet (IBA 9.2).
//
//     byte 0  opcode
//          1  SE:1  MigReq:1  PadCnt:2  TVer:4
//          2  P_Key:16
//          4  FECN:1  BECN:1  reserved:6
//          5  destination QP:24
//          8  AckReq:1  reserved:7
//          9  PSN:24
//
// `Bth` is the meaning of a header; `BthView` reads one in place.
//
// Invariants: a view exists only over at least 12 bytes, so its accessors cannot fail. Reserved
//   bits are ignored on reading and written as zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/wire/numbers.h"
#include "nic/wire/opcode.h"

namespace verbena::wire {

struct Bth {
	static constexpr std::size_t size = 12;
	static constexpr std::uint16_t default_p_key = 0xffff;

	Opcode opcode;
	bool solicited_event = false;
	std::uint8_t pad_count = 0;  // 0 to 3 bytes between payload and ICRC
	std::uint16_t p_key = default_p_key;
	bool congestion_notified = false;  // BECN; read and written, but not acted on
	Qpn destination;
	bool ack_requested = false;
	Psn24 psn;

	void write(std::span<std::byte, size> to) const;
	friend bool operator==(const Bth&, const Bth&) = default;
};

class BthView {
public:
	// Nothing if the packet is shorter than a BTH. The view refers to the packet's bytes.
	static std::optional<BthView> over(std::span<const std::byte> packet);

	// Transport version. The caller drops packets of any version but 0 (IBA 9.6.1).
	std::uint8_t version() const;
	Bth read() const;

private:
	explicit BthView(std::span<const std::byte, Bth::size> bytes) : bytes_(bytes) {}
	std::span<const std::byte, Bth::size> bytes_;
};

}  // namespace verbena::wire
