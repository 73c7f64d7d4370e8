// What the two ends of a connection tell each other before their queue pairs can speak: one message each way, at most
// 512 bytes.
//
//     magic "VBCH" | version u8 | oldest reader u8 | length of all u16 | fields: tag u8, size u8, value
//
// All numbers are big-endian. A reader skips fields whose tag it does not know, so a later version adds fields without
// breaking this one; a message that this one must not read says so by its oldest reader. Every field that is known is
// checked against its limits, may come once, and must be there (in a refusal only the role and the refusal; over TCP
// only role, transport and nonce).
//
// Values and pure functions. What comes from outside gives an error that names the field, never an assertion.
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
	tcp =
		2,  // the stream of the set-up goes on; of the other fields only the nonce and those of logical channels count
};

// Codes of later versions are taken as they are.
enum class RefusalCode : std::uint16_t {
	malformed = 1,  // the client's parameters could not be read, or do not fit the server's
	full = 2,  // as many clients as the server admits
	no_resources = 3,  // memory, queue pairs or descriptors have run out
	shutting_down = 4,
	not_supported = 5,  // the server does not do what the client wants (transport, shared queue pairs)
};
// A word for counting: "no_resources"; "other" for one of a later version.
std::string_view name_of(RefusalCode code);

struct Refusal {
	RefusalCode code = RefusalCode::malformed;
	std::string text;  // one sentence, 1 to 200 bytes; what is not printable ASCII arrives as '?'

	bool operator==(const Refusal&) const = default;
};

using Gid = std::array<std::byte, 16>;
using Nonce = std::array<std::byte, 16>;

struct Parameters {
	Role role = Role::client;
	Transport transport = Transport::rc;
	std::uint32_t qp_number = 0;  // 2 to 0xfffffe: 0 and 1 are management's, 0xffffff is multicast
	std::uint32_t first_psn = 0;  // the first PSN that this end sends, 24 bits
	Gid gid{};  // neither empty nor multicast
	std::uint32_t mtu = 1024;  // path MTU in bytes: 256, 512, 1024, 2048 or 4096
	std::uint32_t receive_depth =
		1;  // receives that the connection may come to have: the most credits at once, 1 to 65535
	std::uint32_t credits_granted = 1;  // buffers that the peer may fill before it hears of more, 1 to 2^24
	std::uint32_t buffer_unit = 1024;  // bytes of the buffer that one credit stands for, 64 to 2^20
	// Largest message that travels through these buffers where READs are possible, which move larger ones; any that a
	// frame can announce: 0 to 512 MiB - 1.
	std::uint32_t eager_size_max = 1024;
	std::uint32_t reads_as_target = 0;  // READs and atomics that the peer may have in flight here, 0 to 255
	std::uint32_t reads_as_initiator = 0;  // READs and atomics that this end wants to have in flight, 0 to 255
	std::uint32_t shared_queue_pairs =
		0;  // queue pairs that logical channels are to share, 0 to 65535; 0: none, the connection has its own
	std::uint32_t logical_channels = 0;  // logical channels wanted on them, 0 to 2^24
	Nonce nonce{};  // random, so that no two set-ups are alike; not all zero
	std::optional<Refusal> refusal;  // the server's no; of the other fields only the role counts then

	bool operator==(const Parameters&) const = default;
};

struct ParameterError {
	std::string_view field;  // "mtu", "magic", "length" ...; lives as long as the program
	std::string text;  // one sentence that begins with the field

	bool operator==(const ParameterError&) const = default;
};

// 8 bytes of a message are enough to know how long it is: 8 to 512.
std::expected<std::size_t, ParameterError> message_size(std::span<const std::byte, parameters_header_size> header);

// The whole message and nothing after it.
std::expected<Parameters, ParameterError> decode(std::span<const std::byte> message);

// `parameters` keep their limits (validate), or it is our own bug.
std::vector<std::byte> encode(const Parameters& parameters);

std::expected<void, ParameterError> validate(const Parameters& parameters);

// Terms: the few of them that rdma_cm carries as private data, in the same encoding, with what a queue pair needs
// beside the connection manager's own fields (the role, MTU, depth, credits, unit, eager size and READs). Nobody is
// authenticated by them; what comes behind the message is padding.
inline constexpr std::size_t terms_size_max = 56;
std::vector<std::byte> encode_terms(const Parameters& parameters);
// `of`: whose they must be.
std::expected<Parameters, ParameterError> decode_terms(std::span<const std::byte> private_data, Role of);

// What both ends come to from the same two messages, as this end sees it.
struct Negotiated {
	std::uint32_t mtu = 0;
	std::uint32_t reads_out = 0;  // ibv_qp_attr.max_rd_atomic
	std::uint32_t reads_in = 0;  // ibv_qp_attr.max_dest_rd_atomic
	std::uint32_t eager_size_max = 0;
	std::uint32_t send_credits = 0;  // what the peer granted
	std::uint32_t send_unit = 0;  // bytes that one of these credits stands for
	std::uint32_t shared_queue_pairs = 0;
	std::uint32_t logical_channels = 0;

	bool operator==(const Negotiated&) const = default;
};

// The smaller of each; an error where there is no middle (two clients, another transport).
std::expected<Negotiated, ParameterError> negotiate(const Parameters& ours, const Parameters& theirs);

Nonce random_nonce();

}  // namespace verbena::channel
