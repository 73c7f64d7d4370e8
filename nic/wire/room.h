// SPDX-License-Identifier: Apache-2.0
// The question of how much may be in flight to a peer, and the peer's answer: a management datagram
// of a vendor's class, between two processes that use this NIC.
//
// Other NICs do not know the class. Linux answers such a question by itself, with a status that is
// not 0 (drivers/infiniband/core/mad.c, generate_unmatched_resp), and drops such an answer.
//
//     byte 0   management header (mad.h): class 0x31, method Get or GetResp
//          24  zeros (RMPP header), reserved:8
//          37  OUI:24            0x565242, "VRB", a locally administered one
//          40  version:8         1; later versions add fields at the end
//          44  asked QPN:32      a queue pair to which the asker sends
//          48  asker's QPN:32    the process of its host that gets the answer passes it on to the
//                                owner of this number
//          52  room:32           bytes; 0 in a question, or if the answerer cannot say
//
// The offsets of the first 40 bytes are those of struct ib_vendor_mad (include/rdma/ib_mad.h).
//
// Threads: a value.
// Errors: read_room_message() trusts nothing.
#pragma once

#include <optional>

#include "nic/wire/mad.h"

namespace verbena::wire {

struct RoomMessage {
	bool is_answer = false;
	std::uint16_t status = 0;  // not 0, in an answer: the peer does not know the question
	std::uint64_t nonce = 0;  // random, the transaction id; an answer repeats it
	Qpn asked, asker;
	std::uint32_t room = 0;
	friend bool operator==(const RoomMessage&, const RoomMessage&) = default;
};

namespace detail {
inline constexpr std::uint8_t room_class = 0x31, room_class_version = 1, room_version = 1;
inline constexpr std::uint16_t room_attribute = 1;
inline constexpr std::uint8_t method_get = 0x01, method_get_response = 0x81;
inline constexpr std::uint32_t room_oui = 0x56'52'42;
}  // namespace detail

inline Mad write_room_message(const RoomMessage& message) {
	Mad mad{};
	write_mad_header(mad,
		{.management_class = detail::room_class,
			.class_version = detail::room_class_version,
			.method = message.is_answer ? detail::method_get_response : detail::method_get,
			.status = message.status,
			.transaction_id = message.nonce,
			.attribute_id = detail::room_attribute});
	store_be32(&mad[36], detail::room_oui);
	store_be8(&mad[40], detail::room_version);
	store_be32(&mad[44], message.asked.value);
	store_be32(&mad[48], message.asker.value);
	store_be32(&mad[52], message.room);
	return mad;
}

// Nullopt: the datagram is none of these messages.
inline std::optional<RoomMessage> read_room_message(std::span<const std::byte> bytes) {
	if (bytes.size() != mad_size) return std::nullopt;
	const MadHeader header = read_mad_header(bytes.first<mad_header_size>());
	const bool is_answer = header.method == detail::method_get_response;
	const std::uint32_t asked = load_be32(&bytes[44]), asker = load_be32(&bytes[48]);
	if (header.management_class != detail::room_class || header.class_version != detail::room_class_version ||
		(!is_answer && header.method != detail::method_get) || header.attribute_id != detail::room_attribute ||
		(load_be32(&bytes[36]) & 0xffffff) != detail::room_oui || load_be8(&bytes[40]) == 0 ||
		((asked | asker) & 0xff00'0000) != 0)
		return std::nullopt;
	return RoomMessage{.is_answer = is_answer,
		.status = header.status,
		.nonce = header.transaction_id,
		.asked = {asked},
		.asker = {asker},
		.room = load_be32(&bytes[52])};
}

}  // namespace verbena::wire
