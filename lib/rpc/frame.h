// SPDX-License-Identifier: Apache-2.0
// The frames of calls on the wire, written and parsed without I/O (docs/rpc.md, "Wire format"). A
// channel message holds one frame or more, one behind the other, and nothing else.
//
//      0  magic 0x56      1  version 1      2  kind      3  serialization of the body
//      4  sequence number u32: the client's name for the call, the same in the response
//      8  request, open: function id u32; response: error code u16, 0 u16; window: bytes u32
//     12  body length u32      16  attachment length u32
//     20  request, open: microseconds that the caller still waits u32, 0: no limit
//     24  body, attachment
//
// Numbers are little-endian.
//
// Threads: plain values; a FrameReader belongs to one thread.
// Lifetime: spans of a Frame point into the message and dangle with it.
// Errors: the peer is untrusted. Bytes that no peer may send are a FrameFault, never an assertion.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <span>
#include <string_view>

#include "lib/rpc/errors.h"

namespace verbena::rpc {

enum class FrameKind : std::uint8_t {
	request = 1,
	response = 2,  // ends the call or the stream of its sequence number
	cancel = 3,  // the caller of this sequence number waits no more
	ping = 4,  // answered by a pong with the same sequence number
	pong = 5,
	goodbye = 6,  // from a server: it is stopping; from a client: its last request is before this
	// Frames of streams, known to peers of protocol level 2. The sequence number is the stream's.
	open = 7,  // a request whose function reads and writes items until its response
	item = 8,  // in either direction
	window = 9,  // the peer may send `granted` more bytes
	done = 10,  // the client sends no more items
};

// The protocol level: 1: calls; 2: streams too. A server of level 2 or above returns it from the
// function "verbena::protocol"; a server of level 1 does not have that function.
inline constexpr std::uint32_t protocol_level = 2;
inline constexpr std::string_view protocol_function = "verbena::protocol";

enum class Serialization : std::uint8_t { none = 0, msgpack = 1 };  // none: there is no body

// The 24 bytes of a header as values; fields that a kind does not have are 0.
struct FrameHeader {
	static constexpr std::size_t bytes = 24;
	static constexpr std::uint8_t magic = 0x56, version = 1;

	FrameKind kind = FrameKind::request;
	Serialization serialization = Serialization::none;
	std::uint32_t sequence = 0;
	std::uint32_t function = 0;  // request, open: the id of the function's name
	std::uint16_t code = 0;  // response: 0, or the error code
	std::uint32_t granted = 0;  // window: bytes
	std::uint32_t body_length = 0;
	std::uint32_t attachment_length = 0;
	std::uint32_t patience_us = 0;  // request, open; 0: no limit

	void write(std::span<std::byte, bytes> out) const;
	bool operator==(const FrameHeader&) const = default;
};

// A frame as it lies in its message.
struct Frame {
	FrameHeader header;
	std::span<const std::byte> body, attachment;
};

// The largest body and attachment that an end sends or accepts, in bytes.
struct FrameLimits {
	std::uint32_t body_max = 16u << 20;
	std::uint32_t attachment_max = 64u << 20;
};

// A frame that cannot be accepted. The code is protocol_error, unknown_protocol_version or
// message_too_large.
struct FrameFault {
	errc code = errc::protocol_error;
	std::string_view text;  // one sentence, in static storage
	// message_too_large: the number of the frame, which the reader has skipped, so that the call
	// can be answered with the error.
	std::uint32_t sequence = 0;
};

// Reads the frames of a message one after the other. After a fault other than message_too_large the
// rest of the message cannot be read.
class FrameReader {
public:
	FrameReader(std::span<const std::byte> message, const FrameLimits& limits) : rest_(message), limits_(limits) {}

	bool done() const { return rest_.empty(); }
	std::size_t left() const { return rest_.size(); }  // bytes that are not read yet
	// To be called while !done().
	std::expected<Frame, FrameFault> next();

private:
	std::span<const std::byte> rest_;
	FrameLimits limits_;
};

}  // namespace verbena::rpc
