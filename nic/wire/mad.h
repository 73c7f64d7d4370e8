// SPDX-License-Identifier: Apache-2.0
// Management datagram (IBA 13.4.3): 256 bytes, of which the first 24 are the header.
//
//     byte 0  BaseVersion:8     1
//          1  MgmtClass:8
//          2  ClassVersion:8
//          3  Method:8          the high bit is set in a response
//          4  Status:16
//          6  class specific:16
//          8  TransactionID:64
//         16  AttributeID:16
//         18  reserved:16
//         20  AttributeModifier:32
//
// Messages of the Communication Manager (IBA 12.6) go from queue pair 1 to queue pair 1, with the
// well-known Q_Key of the general services.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/wire/big_endian.h"
#include "nic/wire/numbers.h"

namespace verbena::wire {

inline constexpr Qpn general_services_qpn{1};
inline constexpr std::uint32_t general_services_q_key = 0x8001'0000;

inline constexpr std::size_t mad_size = 256, mad_header_size = 24;
using Mad = std::array<std::byte, mad_size>;

namespace mad {
inline constexpr std::uint8_t base_version = 1;
inline constexpr std::uint8_t class_communication_management = 0x07;
inline constexpr std::uint8_t communication_management_version = 2;
inline constexpr std::uint8_t method_send = 0x03;
}  // namespace mad

struct MadHeader {
	std::uint8_t management_class = mad::class_communication_management;
	std::uint8_t class_version = mad::communication_management_version;
	std::uint8_t method = mad::method_send;
	std::uint16_t status = 0;
	std::uint64_t transaction_id = 0;
	std::uint16_t attribute_id = 0;
	std::uint32_t attribute_modifier = 0;
	friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

inline void write_mad_header(Mad& to, const MadHeader& header) {
	store_be8(&to[0], mad::base_version);
	store_be8(&to[1], header.management_class);
	store_be8(&to[2], header.class_version);
	store_be8(&to[3], header.method);
	store_be16(&to[4], header.status);
	store_be16(&to[6], 0);
	store_be64(&to[8], header.transaction_id);
	store_be16(&to[16], header.attribute_id);
	store_be16(&to[18], 0);
	store_be32(&to[20], header.attribute_modifier);
}

// Does not check the base version, of which there is only one.
inline MadHeader read_mad_header(std::span<const std::byte, mad_header_size> from) {
	return {.management_class = load_be8(&from[1]),
		.class_version = load_be8(&from[2]),
		.method = load_be8(&from[3]),
		.status = load_be16(&from[4]),
		.transaction_id = load_be64(&from[8]),
		.attribute_id = load_be16(&from[16]),
		.attribute_modifier = load_be32(&from[20])};
}

}  // namespace verbena::wire
