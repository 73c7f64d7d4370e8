// SPDX-License-Identifier: Apache-2.0
// The messages of the Communication Manager (IBA 12.6, 12.11), each a struct that is written into
// and read from a management datagram.
//
// Fields without a use on RoCE (LIDs, the alternate path, end-to-end contexts) are written as the
// Linux kernel's Communication Manager writes them, and are not read.
//
// Errors: read_message() trusts nothing. Each field that it returns is in its range. It refuses a
//   message with a field outside its range, and the caller drops the message.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <span>
#include <variant>

#include "nic/wire/flow.h"
#include "nic/wire/mad.h"
#include "nic/wire/numbers.h"

namespace verbena::cm {

// A connection's number at one of its ends, unique there.
struct CommId {
	std::uint32_t value = 0;
	friend bool operator==(const CommId&, const CommId&) = default;
};

// The service of a host that a request is for.
struct ServiceId {
	std::uint64_t value = 0;
	friend bool operator==(const ServiceId&, const ServiceId&) = default;
	friend auto operator<=>(const ServiceId&, const ServiceId&) = default;
};

// IBA Annex A11: an rdma_cm port is a service id, with the port space in bytes 4 and 5 and the port
// in bytes 6 and 7.
namespace port_space {
inline constexpr std::uint16_t ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f;
}
constexpr ServiceId service_of(std::uint16_t space, std::uint16_t port) { return {std::uint64_t{space} << 16 | port}; }
constexpr std::uint16_t port_of(ServiceId service) { return static_cast<std::uint16_t>(service.value); }

// Private data of at most `Capacity` bytes. A message always carries `Capacity` bytes: those that
// the sender did not give are zeros, and the receiver does not learn the number that the sender
// gave.
template <std::size_t Capacity> class PrivateData {
public:
	static constexpr std::size_t capacity = Capacity;

	PrivateData() = default;
	// Bytes beyond the capacity are cut off.
	explicit PrivateData(std::span<const std::byte> bytes) {
		if (!bytes.empty()) std::memcpy(bytes_.data(), bytes.data(), std::min(bytes.size(), Capacity));
	}
	std::span<const std::byte> bytes() const { return bytes_; }
	std::span<std::byte, Capacity> storage() { return bytes_; }
	friend bool operator==(const PrivateData&, const PrivateData&) = default;

private:
	std::array<std::byte, Capacity> bytes_{};
};

// The first 36 bytes of the private data of a REQ or SIDR_REQ for an rdma_cm port (IBA Annex A11):
// the IP addresses of both ends.
struct IpAddresses {
	static constexpr std::size_t size = 36;
	wire::Gid source{}, destination{};  // IPv4 addresses are mapped
	std::uint16_t source_port = 0;
	friend bool operator==(const IpAddresses&, const IpAddresses&) = default;
};

enum class Transport : std::uint8_t { rc = 0, uc = 1 };

// The messages. `attribute` is the MAD header's AttributeID; `local` and `remote` are seen from the
// sender. Half (connection.h) explains the fields that describe a queue pair.

// Request for a connection.
struct Req {
	static constexpr std::uint16_t attribute = 0x10;
	CommId local;
	ServiceId service;
	std::uint64_t ca_guid = 0;
	std::uint32_t q_key = 0;
	wire::Qpn qpn;
	std::uint8_t responder_resources = 0, initiator_depth = 0;
	Transport transport = Transport::rc;
	bool flow_control = true;
	wire::Psn24 starting_psn;
	// The times within which each end's CM answers: 4.096 us * 2^n, 5 bits.
	std::uint8_t remote_response_timeout = 20, local_response_timeout = 20;
	std::uint8_t retry_count = 7, rnr_retry_count = 7;  // 3 bits
	std::uint16_t p_key = 0xffff;
	std::uint8_t path_mtu = 3;  // as `enum ibv_mtu`, 1 to 5
	std::uint8_t max_cm_retries = 15;  // 4 bits
	bool srq = false;
	wire::Gid local_gid{}, remote_gid{};  // the primary path
	std::uint32_t flow_label = 0;  // 20 bits
	std::uint8_t traffic_class = 0, hop_limit = 64;
	std::uint8_t service_level = 0;  // 4 bits
	std::uint8_t ack_timeout = 17;  // 4.096 us * 2^n, 5 bits
	IpAddresses addresses;
	PrivateData<56> data;
	friend bool operator==(const Req&, const Req&) = default;
};

// Message Receipt Acknowledgement: "I have your message, and my answer takes longer".
struct Mra {
	static constexpr std::uint16_t attribute = 0x11;
	CommId local, remote;
	std::uint8_t of = 0;  // refers_to_req or another such value; 2 means LAP
	std::uint8_t service_timeout = 0;  // 4.096 us * 2^n, 5 bits
	PrivateData<222> data;
	friend bool operator==(const Mra&, const Mra&) = default;
};

// The values of Mra::of and Rej::of: the message that an MRA acknowledges or a REJ rejects.
inline constexpr std::uint8_t refers_to_req = 0, refers_to_rep = 1, refers_to_other = 2;

// The reasons of a REJ (IBA 12.6) that this CM sends or interprets.
namespace reject_reason {
inline constexpr std::uint16_t timeout = 4, unsupported = 5, invalid_comm_id = 6, invalid_service = 8,
							   stale_connection = 10, consumer = 28;
}

// Rejection of a request or a response.
struct Rej {
	static constexpr std::uint16_t attribute = 0x12;
	CommId local, remote;
	std::uint8_t of = 0;  // refers_to_req or another such value; 2: no particular message
	std::uint16_t reason = reject_reason::consumer;
	// The sender's CA GUID, in the additional reject information of reason `timeout`; 0: none.
	std::uint64_t ca_guid = 0;
	PrivateData<148> data;
	friend bool operator==(const Rej&, const Rej&) = default;
};

// Reply to a REQ: the passive end accepts.
struct Rep {
	static constexpr std::uint16_t attribute = 0x13;
	CommId local, remote;
	std::uint32_t q_key = 0;
	wire::Qpn qpn;
	wire::Psn24 starting_psn;
	std::uint8_t responder_resources = 0, initiator_depth = 0;
	std::uint8_t target_ack_delay = 15;  // 5 bits
	bool flow_control = true;
	std::uint8_t rnr_retry_count = 7;  // 3 bits
	bool srq = false;
	std::uint64_t ca_guid = 0;
	PrivateData<196> data;
	friend bool operator==(const Rep&, const Rep&) = default;
};

// Ready To Use: the active end has received the REP.
struct Rtu {
	static constexpr std::uint16_t attribute = 0x14;
	CommId local, remote;
	PrivateData<224> data;
	friend bool operator==(const Rtu&, const Rtu&) = default;
};

// Disconnection request.
struct Dreq {
	static constexpr std::uint16_t attribute = 0x15;
	CommId local, remote;
	wire::Qpn remote_qpn;
	PrivateData<220> data;
	friend bool operator==(const Dreq&, const Dreq&) = default;
};

// Disconnection reply.
struct Drep {
	static constexpr std::uint16_t attribute = 0x16;
	CommId local, remote;
	PrivateData<224> data;
	friend bool operator==(const Drep&, const Drep&) = default;
};

// Service ID resolution request: which datagram queue pair serves `service`?
struct SidrReq {
	static constexpr std::uint16_t attribute = 0x17;
	CommId request;  // the sender's number for this request
	std::uint16_t p_key = 0xffff;
	ServiceId service;
	IpAddresses addresses;
	PrivateData<180> data;
	friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

namespace sidr_status {
inline constexpr std::uint8_t success = 0, unsupported = 1, reject = 2, no_queue_pair = 3;
}

// Service ID resolution response.
struct SidrRep {
	static constexpr std::uint16_t attribute = 0x18;
	CommId request;  // SidrReq::request, repeated
	std::uint8_t status = sidr_status::success;  // qpn and q_key are 0 with any other status
	wire::Qpn qpn;
	ServiceId service;
	std::uint32_t q_key = 0;
	PrivateData<136> data;
	friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep>;

// A message with the MAD header's transaction id, which the answer repeats.
struct Envelope {
	std::uint64_t transaction = 0;
	Message message;
};

wire::Mad write_message(const Envelope&);

// other_class: the datagram is no message of the Communication Manager. unknown_attribute: no
// struct above has its AttributeID. bad_field: a field is outside its range.
enum class Malformed : std::uint8_t { other_class, unknown_attribute, bad_field };
std::expected<Envelope, Malformed> read_message(std::span<const std::byte, wire::mad_size>);

// The connection or service, at the receiver, that a message is for. The NIC uses it to find the
// process of the receiving host that must get the message.
struct Addressee {
	// Set for a REQ or SIDR_REQ; then `connection` is zero.
	std::optional<ServiceId> service;
	CommId connection;
};
Addressee addressee_of(const Message&);

}  // namespace verbena::cm
