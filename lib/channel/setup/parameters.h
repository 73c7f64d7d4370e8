// SPDX-License-Identifier: Apache-2.0
// The parameters that the two ends of a connection exchange before their queue pairs can
// communicate: one message each way, of at most 512 bytes.
//
//     magic "VBCH" | version u8 | oldest reader u8 | length u16 | fields: tag u8, size u8, value
//
// All numbers are big-endian. A reader skips fields with unknown tags, so a later version can add
// fields; a message that this version must not read has an oldest reader above it. Every known
// field is checked against its range, may appear once, and must appear. Exceptions: a refusal needs
// only the role and the refusal; TCP needs only role, transport and nonce.
//
// Threads: values and pure functions.
// Errors: input from the peer gives an error that names the field, never an assertion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::channel {

inline constexpr std::array<std::byte, 4> parameters_magic{
	std::byte{'V'}, std::byte{'B'}, std::byte{'C'}, std::byte{'H'}};
inline constexpr std::uint8_t parameters_version = 1;
inline constexpr std::size_t parameters_header_size = 8, parameters_size_max = 512, refusal_text_max = 200;

enum class Role : std::uint8_t { client = 1, server = 2 };
enum class Transport : std::uint8_t {
	rc = 1,
	// The stream of the set-up carries the messages; only the nonce and the fields of logical
	// channels matter.
	tcp = 2,
};

// Unknown codes of later versions are kept as they are.
enum class RefusalCode : std::uint16_t {
	malformed = 1,  // the client's parameters are invalid, or do not fit the server's
	full = 2,  // the server has its maximum of clients
	no_resources = 3,  // memory, queue pairs or descriptors have run out
	shutting_down = 4,
	not_supported = 5,  // the server lacks what the client wants (transport, shared queue pairs)
	busy = 6,  // the server has too many set-ups under way; a client may try again
};
// A label for counters: "no_resources"; "other" for an unknown code.
std::string_view name_of(RefusalCode code);

struct Refusal {
	RefusalCode code = RefusalCode::malformed;
	// One sentence, 1 to 200 bytes; bytes that are not printable ASCII are read as '?'.
	std::string text;

	bool operator==(const Refusal&) const = default;
};

using Gid = std::array<std::byte, 16>;
using Nonce = std::array<std::byte, 16>;

struct Parameters {
	Role role = Role::client;
	Transport transport = Transport::rc;
	// 2 to 0xfffffe: 0 and 1 are for management, 0xffffff is multicast.
	std::uint32_t qp_number = 0;
	std::uint32_t first_psn = 0;  // the first PSN that this end sends, 24 bits
	Gid gid{};  // neither empty nor multicast
	std::uint32_t mtu = 1024;  // path MTU in bytes: 256, 512, 1024, 2048 or 4096
	std::uint32_t receive_depth = 1;  // the most credits that the peer can hold, 1 to 65535
	// Buffers that the peer may fill before it gets further credits, 1 to 2^24.
	std::uint32_t credits_granted = 1;
	std::uint32_t buffer_unit = 1024;  // bytes of the buffer behind one credit, 64 to 2^20
	// The largest message that is sent eager (copied through these buffers); larger ones are
	// fetched by READ if the device can. Any size that a frame can announce: 0 to 512 MiB - 1.
	std::uint32_t eager_size_max = 1024;
	// READs and atomics that the peer may have in flight here, 0 to 255.
	std::uint32_t reads_as_target = 0;
	// READs and atomics that this end wants to have in flight, 0 to 255.
	std::uint32_t reads_as_initiator = 0;
	// Queue pairs that logical channels share, 0 to 65535; 0: the connection has its own.
	std::uint32_t shared_queue_pairs = 0;
	std::uint32_t logical_channels = 0;  // logical channels wanted on them, 0 to 2^24
	Nonce nonce{};  // random, so that no two set-ups have equal messages; not all zero
	std::optional<Refusal> refusal;  // the server's refusal; then only the role matters

	bool operator==(const Parameters&) const = default;
};

struct ParameterError {
	std::string_view field;  // "mtu", "magic", "length" ...; static storage
	std::string text;  // one sentence that begins with the field

	bool operator==(const ParameterError&) const = default;
};

// The length of the message, 8 to 512, from its header.
std::expected<std::size_t, ParameterError> message_size(std::span<const std::byte, parameters_header_size> header);

// Reads a whole message; bytes after it are an error.
std::expected<Parameters, ParameterError> decode(std::span<const std::byte> message);

// `parameters` must be valid (validate()); anything else is our own bug.
std::vector<std::byte> encode(const Parameters& parameters);

std::expected<void, ParameterError> validate(const Parameters& parameters);

// Terms: the parameters that rdma_cm carries as private data, in the same encoding, with what a
// queue pair needs besides the manager's own fields: role, MTU, depth, credits, unit, eager size
// and READs. They authenticate no one. Bytes after the message are padding.
inline constexpr std::size_t terms_size_max = 56;
std::vector<std::byte> encode_terms(const Parameters& parameters);
// `of` is the role that the sender must have.
std::expected<Parameters, ParameterError> decode_terms(std::span<const std::byte> private_data, Role of);

// The result of the two messages, which both ends compute, as this end sees it.
struct Negotiated {
	std::uint32_t mtu = 0;
	std::uint32_t reads_out = 0;  // ibv_qp_attr.max_rd_atomic
	std::uint32_t reads_in = 0;  // ibv_qp_attr.max_dest_rd_atomic
	std::uint32_t eager_size_max = 0;
	std::uint32_t send_credits = 0;  // credits that the peer granted
	std::uint32_t send_unit = 0;  // bytes of the buffer behind one of these credits
	std::uint32_t shared_queue_pairs = 0;
	std::uint32_t logical_channels = 0;

	bool operator==(const Negotiated&) const = default;
};

// Takes the smaller of each value. Errors: values that cannot be combined, such as two clients or
// different transports.
std::expected<Negotiated, ParameterError> negotiate(const Parameters& ours, const Parameters& theirs);

// Never all zero.
Nonce random_nonce();

}  // namespace verbena::channel
