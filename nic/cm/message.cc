// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/message.h"

#include <algorithm>

namespace verbena::cm {

using wire::load_be16;
using wire::load_be32;
using wire::load_be64;
using wire::load_be8;
using wire::store_be16;
using wire::store_be32;
using wire::store_be64;
using wire::store_be8;

namespace {

// A field of 24 bits; `behind` is the byte after it.
std::uint32_t load_be24(const std::byte* from) { return load_be32(from) >> 8; }
void store_be24(std::byte* to, std::uint32_t value, std::uint8_t behind = 0) { store_be32(to, value << 8 | behind); }

template <std::size_t N> void store(std::byte* to, const PrivateData<N>& data) { std::ranges::copy(data.bytes(), to); }
template <std::size_t N> void load(const std::byte* from, PrivateData<N>& data) {
	data = PrivateData<N>(std::span(from, N));
}
void store(std::byte* to, const wire::Gid& gid) { std::memcpy(to, gid.data(), gid.size()); }
void load(const std::byte* from, wire::Gid& gid) { std::memcpy(gid.data(), from, gid.size()); }

// IBA Annex A11: an IPv4 address takes the last four bytes of its field, behind zeros.
void store_address(std::byte* to, const wire::Gid& address, bool ipv4) {
	std::memset(to, 0, 16);
	if (ipv4) std::memcpy(to + 12, address.data() + 12, 4);
	else store(to, address);
}
wire::Gid load_address(const std::byte* from, bool ipv4) {
	wire::Gid address{};
	if (!ipv4) return load(from, address), address;
	address[10] = address[11] = 0xff;
	std::memcpy(address.data() + 12, from + 12, 4);
	return address;
}

// IBA Annex A11: version 0, IP version in the high 4 bits, source port, source, destination.
void store(std::byte* to, const IpAddresses& a) {
	const bool ipv4 = wire::is_ipv4_mapped(a.destination);
	store_be8(to, 0);
	store_be8(to + 1, ipv4 ? 0x40 : 0x60);
	store_be16(to + 2, a.source_port);
	store_address(to + 4, a.source, ipv4);
	store_address(to + 20, a.destination, ipv4);
}
bool load(const std::byte* from, IpAddresses& a) {
	const std::uint8_t version = load_be8(from + 1) >> 4;
	if (load_be8(from) != 0 || (version != 4 && version != 6)) return false;
	a.source_port = load_be16(from + 2);
	a.source = load_address(from + 4, version == 4);
	a.destination = load_address(from + 20, version == 4);
	return true;
}

template <class M> void store_ids(std::byte* to, const M& m) {
	store_be32(to, m.local.value);
	store_be32(to + 4, m.remote.value);
}
template <class M> void load_ids(const std::byte* from, M& m) {
	m.local = {load_be32(from)};
	m.remote = {load_be32(from + 4)};
}

// Each pair of functions writes and reads the 232 bytes behind the MAD header. Offsets and bit
// positions are those of IBA 12.6. load() returns false for a field out of range.

void store(std::byte* to, const Req& m) {
	constexpr std::uint16_t permissive_lid = 0xffff;  // replaces the LIDs of routed packets
	store_be32(to, m.local.value);
	store_be64(to + 8, m.service.value);
	store_be64(to + 16, m.ca_guid);
	store_be32(to + 28, m.q_key);
	store_be24(to + 32, m.qpn.value, m.responder_resources);
	store_be24(to + 36, 0, m.initiator_depth);
	store_be24(to + 40, 0,
		static_cast<std::uint8_t>(
			m.remote_response_timeout << 3 | static_cast<int>(m.transport) << 1 | m.flow_control));
	store_be24(to + 44, m.starting_psn.value, static_cast<std::uint8_t>(m.local_response_timeout << 3 | m.retry_count));
	store_be16(to + 48, m.p_key);
	store_be8(to + 50, static_cast<std::uint8_t>(m.path_mtu << 4 | m.rnr_retry_count));
	store_be8(to + 51, static_cast<std::uint8_t>(m.max_cm_retries << 4 | m.srq << 3));
	store_be16(to + 52, permissive_lid);
	store_be16(to + 54, permissive_lid);
	store(to + 56, m.local_gid);
	store(to + 72, m.remote_gid);
	store_be32(to + 88, m.flow_label << 12);
	store_be8(to + 92, m.traffic_class);
	store_be8(to + 93, m.hop_limit);
	store_be8(to + 94, static_cast<std::uint8_t>(m.service_level << 4));
	store_be8(to + 95, static_cast<std::uint8_t>(m.ack_timeout << 3));
	store(to + 140, m.addresses);
	store(to + 140 + IpAddresses::size, m.data);
}
bool load(const std::byte* from, Req& m) {
	m.local = {load_be32(from)};
	m.service = {load_be64(from + 8)};
	m.ca_guid = load_be64(from + 16);
	m.q_key = load_be32(from + 28);
	m.qpn = {load_be24(from + 32)};
	m.responder_resources = load_be8(from + 35);
	m.initiator_depth = load_be8(from + 39);
	const std::uint8_t timeout_transport = load_be8(from + 43);
	m.remote_response_timeout = timeout_transport >> 3;
	m.transport = static_cast<Transport>(timeout_transport >> 1 & 3);
	m.flow_control = timeout_transport & 1;
	m.starting_psn = {load_be24(from + 44)};
	m.local_response_timeout = load_be8(from + 47) >> 3;
	m.retry_count = load_be8(from + 47) & 7;
	m.p_key = load_be16(from + 48);
	m.path_mtu = load_be8(from + 50) >> 4;
	m.rnr_retry_count = load_be8(from + 50) & 7;
	m.max_cm_retries = load_be8(from + 51) >> 4;
	m.srq = load_be8(from + 51) >> 3 & 1;
	load(from + 56, m.local_gid);
	load(from + 72, m.remote_gid);
	m.flow_label = load_be32(from + 88) >> 12;
	m.traffic_class = load_be8(from + 92);
	m.hop_limit = load_be8(from + 93);
	m.service_level = load_be8(from + 94) >> 4;
	m.ack_timeout = load_be8(from + 95) >> 3;
	load(from + 140 + IpAddresses::size, m.data);
	const bool known_transport = m.transport == Transport::rc || m.transport == Transport::uc;
	return load(from + 140, m.addresses) && known_transport && m.path_mtu >= 1 && m.path_mtu <= 5;
}

void store(std::byte* to, const Mra& m) {
	store_ids(to, m);
	store_be8(to + 8, static_cast<std::uint8_t>(m.of << 6));
	store_be8(to + 9, static_cast<std::uint8_t>(m.service_timeout << 3));
	store(to + 10, m.data);
}
bool load(const std::byte* from, Mra& m) {
	load_ids(from, m);
	m.of = load_be8(from + 8) >> 6;
	m.service_timeout = load_be8(from + 9) >> 3;
	load(from + 10, m.data);
	return true;
}

void store(std::byte* to, const Rej& m) {
	store_ids(to, m);
	store_be8(to + 8, static_cast<std::uint8_t>(m.of << 6));
	store_be16(to + 10, m.reason);
	if (m.ca_guid != 0) {
		store_be8(to + 9, sizeof m.ca_guid << 1);
		store_be64(to + 12, m.ca_guid);
	}
	store(to + 84, m.data);
}
bool load(const std::byte* from, Rej& m) {
	load_ids(from, m);
	m.of = load_be8(from + 8) >> 6;
	m.reason = load_be16(from + 10);
	if (load_be8(from + 9) >> 1 >= sizeof m.ca_guid) m.ca_guid = load_be64(from + 12);
	load(from + 84, m.data);
	return true;
}

void store(std::byte* to, const Rep& m) {
	store_ids(to, m);
	store_be32(to + 8, m.q_key);
	store_be24(to + 12, m.qpn.value);
	store_be24(to + 20, m.starting_psn.value);
	store_be8(to + 24, m.responder_resources);
	store_be8(to + 25, m.initiator_depth);
	store_be8(to + 26, static_cast<std::uint8_t>(m.target_ack_delay << 3 | m.flow_control));
	store_be8(to + 27, static_cast<std::uint8_t>(m.rnr_retry_count << 5 | m.srq << 4));
	store_be64(to + 28, m.ca_guid);
	store(to + 36, m.data);
}
bool load(const std::byte* from, Rep& m) {
	load_ids(from, m);
	m.q_key = load_be32(from + 8);
	m.qpn = {load_be24(from + 12)};
	m.starting_psn = {load_be24(from + 20)};
	m.responder_resources = load_be8(from + 24);
	m.initiator_depth = load_be8(from + 25);
	m.target_ack_delay = load_be8(from + 26) >> 3;
	m.flow_control = load_be8(from + 26) & 1;
	m.rnr_retry_count = load_be8(from + 27) >> 5;
	m.srq = load_be8(from + 27) >> 4 & 1;
	m.ca_guid = load_be64(from + 28);
	load(from + 36, m.data);
	return true;
}

template <class M>
	requires std::same_as<M, Rtu> || std::same_as<M, Drep>
void store(std::byte* to, const M& m) {
	store_ids(to, m);
	store(to + 8, m.data);
}
template <class M>
	requires std::same_as<M, Rtu> || std::same_as<M, Drep>
bool load(const std::byte* from, M& m) {
	load_ids(from, m);
	load(from + 8, m.data);
	return true;
}

void store(std::byte* to, const Dreq& m) {
	store_ids(to, m);
	store_be24(to + 8, m.remote_qpn.value);
	store(to + 12, m.data);
}
bool load(const std::byte* from, Dreq& m) {
	load_ids(from, m);
	m.remote_qpn = {load_be24(from + 8)};
	load(from + 12, m.data);
	return true;
}

void store(std::byte* to, const SidrReq& m) {
	store_be32(to, m.request.value);
	store_be16(to + 4, m.p_key);
	store_be64(to + 8, m.service.value);
	store(to + 16, m.addresses);
	store(to + 16 + IpAddresses::size, m.data);
}
bool load(const std::byte* from, SidrReq& m) {
	m.request = {load_be32(from)};
	m.p_key = load_be16(from + 4);
	m.service = {load_be64(from + 8)};
	load(from + 16 + IpAddresses::size, m.data);
	return load(from + 16, m.addresses);
}

void store(std::byte* to, const SidrRep& m) {
	store_be32(to, m.request.value);
	store_be8(to + 4, m.status);
	store_be24(to + 8, m.qpn.value);
	store_be64(to + 12, m.service.value);
	store_be32(to + 20, m.q_key);
	store(to + 96, m.data);
}
bool load(const std::byte* from, SidrRep& m) {
	m.request = {load_be32(from)};
	m.status = load_be8(from + 4);
	m.qpn = {load_be24(from + 8)};
	m.service = {load_be64(from + 12)};
	m.q_key = load_be32(from + 20);
	load(from + 96, m.data);
	return true;
}

// Nullopt: a field is out of range.
template <class M> std::optional<Message> read_as(const std::byte* data) {
	M message;
	if (!load(data, message)) return std::nullopt;
	return message;
}

std::expected<std::optional<Message>, Malformed> read_data(std::uint16_t attribute, const std::byte* data) {
	switch (attribute) {
		case Req::attribute: return read_as<Req>(data);
		case Mra::attribute: return read_as<Mra>(data);
		case Rej::attribute: return read_as<Rej>(data);
		case Rep::attribute: return read_as<Rep>(data);
		case Rtu::attribute: return read_as<Rtu>(data);
		case Dreq::attribute: return read_as<Dreq>(data);
		case Drep::attribute: return read_as<Drep>(data);
		case SidrReq::attribute: return read_as<SidrReq>(data);
		case SidrRep::attribute: return read_as<SidrRep>(data);
		default: return std::unexpected(Malformed::unknown_attribute);
	}
}

}  // namespace

wire::Mad write_message(const Envelope& envelope) {
	wire::Mad mad{};
	std::visit(
		[&](const auto& message) {
			wire::write_mad_header(mad, {.transaction_id = envelope.transaction, .attribute_id = message.attribute});
			store(mad.data() + wire::mad_header_size, message);
		},
		envelope.message);
	return mad;
}

std::expected<Envelope, Malformed> read_message(std::span<const std::byte, wire::mad_size> bytes) {
	const wire::MadHeader header = wire::read_mad_header(bytes.first<wire::mad_header_size>());
	if (header.management_class != wire::mad::class_communication_management ||
		header.method != wire::mad::method_send || header.class_version != wire::mad::communication_management_version)
		return std::unexpected(Malformed::other_class);
	auto message = read_data(header.attribute_id, bytes.data() + wire::mad_header_size);
	if (!message) return std::unexpected(message.error());
	if (!*message) return std::unexpected(Malformed::bad_field);
	return Envelope{header.transaction_id, **message};
}

Addressee addressee_of(const Message& message) {
	return std::visit(
		[](const auto& m) -> Addressee {
			using M = std::remove_cvref_t<decltype(m)>;
			if constexpr (std::same_as<M, Req> || std::same_as<M, SidrReq>) return {m.service, {}};
			else if constexpr (std::same_as<M, SidrRep>) return {std::nullopt, m.request};
			else return {std::nullopt, m.remote};
		},
		message);
}

}  // namespace verbena::cm
