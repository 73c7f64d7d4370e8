// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/ip_packet.h"

namespace verbena::trace {
namespace {

constexpr std::uint8_t protocol_udp = 17;

void put16(std::string& to, std::size_t value) {
	to.push_back(static_cast<char>(value >> 8));
	to.push_back(static_cast<char>(value));
}

// The sum of RFC 1071, not folded.
std::uint64_t sum(std::span<const std::byte> bytes) {
	std::uint64_t total = 0;
	for (std::size_t i = 0; i < bytes.size(); ++i)
		total += std::to_integer<std::uint64_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
	return total;
}

std::uint16_t fold(std::uint64_t total) {
	while (total >> 16) total = (total & 0xffff) + (total >> 16);
	return static_cast<std::uint16_t>(~total);
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

void put_checksum(std::string& to, std::size_t at, std::uint16_t value) {
	to[at] = static_cast<char>(value >> 8);
	to[at + 1] = static_cast<char>(value);
}

std::string ipv4_header(const wire::Flow& flow, std::size_t udp_bytes) {
	constexpr std::size_t header_bytes = 20, checksum_at = 10, first_of_mapped = 12;
	std::string h;
	h.push_back(0x45);
	h.push_back(static_cast<char>(flow.traffic_class));
	put16(h, header_bytes + udp_bytes);
	put16(h, 0);  // identification
	put16(h, 0x4000);  // DF
	h.push_back(static_cast<char>(flow.hop_limit));
	h.push_back(static_cast<char>(protocol_udp));
	put16(h, 0);
	h.append(reinterpret_cast<const char*>(flow.source.data()) + first_of_mapped, 4);
	h.append(reinterpret_cast<const char*>(flow.destination.data()) + first_of_mapped, 4);
	put_checksum(h, checksum_at, fold(sum(bytes_of(h))));
	return h;
}

std::string ipv6_header(const wire::Flow& flow, std::size_t udp_bytes) {
	std::string h;
	put16(h, 0x6000 | flow.traffic_class << 4);
	put16(h, 0);  // the flow label is not known here
	put16(h, udp_bytes);
	h.push_back(static_cast<char>(protocol_udp));
	h.push_back(static_cast<char>(flow.hop_limit));
	h.append(reinterpret_cast<const char*>(flow.source.data()), flow.source.size());
	h.append(reinterpret_cast<const char*>(flow.destination.data()), flow.destination.size());
	return h;
}

}  // namespace

std::string ip_udp_headers(const wire::Flow& flow, std::span<const std::byte> payload) {
	constexpr std::size_t udp_header_bytes = 8, checksum_at = 6;
	const std::size_t udp_bytes = udp_header_bytes + payload.size();
	std::string udp;
	put16(udp, flow.source_port);
	put16(udp, flow.destination_port);
	put16(udp, udp_bytes);
	put16(udp, 0);
	// The pseudo-header of RFC 768 and RFC 8200.
	const std::size_t first = flow.is_ipv4() ? 12 : 0;
	const std::uint64_t total = sum(std::as_bytes(std::span(flow.source)).subspan(first)) +
		sum(std::as_bytes(std::span(flow.destination)).subspan(first)) + protocol_udp + udp_bytes + sum(bytes_of(udp)) +
		sum(payload);
	const std::uint16_t checksum = fold(total);
	put_checksum(udp, checksum_at, checksum ? checksum : 0xffff);
	return (flow.is_ipv4() ? ipv4_header(flow, udp_bytes) : ipv6_header(flow, udp_bytes)) + udp;
}

}  // namespace verbena::trace
