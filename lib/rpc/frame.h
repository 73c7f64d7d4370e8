// The frames of a call on the wire, without I/O. One channel message holds one frame or more, one behind the other, and
// nothing else.
//
//      0  magic 0x56      1  version 1      2  kind      3  flags: how the body is serialized
//      4  sequence number u32: the caller's name for the call, the same in its answer
//      8  request, open: function u32 (id of its name)   response: error code u16, 0 u16   window: bytes u32
//     12  body length u32      16  attachment length u32
//     20  request, open: microseconds that the caller still waits u32, 0: for ever
//     24  body, attachment
//
// Numbers are little-endian. What comes from outside gives a fault, never an assertion; spans point into the message.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <span>
#include <string_view>

#include "lib/rpc/errors.h"

namespace verbena::rpc {

enum class FrameKind : std::uint8_t {
	request = 1,
	response = 2,
	cancel = 3,  // the caller of this sequence number waits no more
	ping = 4,  // answered by pong with the same sequence number
	pong = 5,
	goodbye = 6,  // the server takes no new request on this connection, and answers what it has
	// Of streams, which only peers of protocol level 2 know; the sequence number is the stream's.
	open = 7,  // a request whose function reads and writes items until it is answered
	item = 8,  // one way or the other
	window = 9,  // the peer may send so many bytes more
	done = 10,  // the client sends no more items
};

// What a server answers to a call of the function "verbena::protocol", which every server of level 2 and above has: 1:
// calls, 2: streams too.
inline constexpr std::uint32_t protocol_level = 2;
inline constexpr std::string_view protocol_function = "verbena::protocol";

enum class Serialization : std::uint8_t { none = 0, msgpack = 1 };  // none: there is no body

struct FrameHeader {
	static constexpr std::size_t bytes = 24;
	static constexpr std::uint8_t magic = 0x56, version = 1;

	FrameKind kind = FrameKind::request;
	Serialization serialization = Serialization::none;
	std::uint32_t sequence = 0;
	std::uint32_t function = 0;  // of a request or open
	std::uint16_t code = 0;  // of a response
	std::uint32_t granted = 0;  // of a window
	std::uint32_t body_length = 0;
	std::uint32_t attachment_length = 0;
	std::uint32_t patience_us = 0;

	void write(std::span<std::byte, bytes> out) const;
	bool operator==(const FrameHeader&) const = default;
};

struct Frame {
	FrameHeader header;
	std::span<const std::byte> body, attachment;
};

struct FrameLimits {
	std::uint32_t body_max = 16u << 20;
	std::uint32_t attachment_max = 64u << 20;
};

struct FrameFault {
	errc code = errc::protocol_error;  // protocol_error, unknown_protocol_version or message_too_large
	std::string_view text;  // lives as long as the program
	std::uint32_t sequence = 0;  // of message_too_large: of the frame that may be answered; the reader has skipped it
};

// Reads a message's frames one after the other. After a fault other than message_too_large the rest of the message
// means nothing.
class FrameReader {
public:
	FrameReader(std::span<const std::byte> message, const FrameLimits& limits) : rest_(message), limits_(limits) {}

	bool done() const { return rest_.empty(); }
	std::expected<Frame, FrameFault> next();

private:
	std::span<const std::byte> rest_;
	FrameLimits limits_;
};

}  // namespace verbena::rpc
