// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/grh.h"

#include <cstring>

#include "nic/wire/big_endian.h"
#include "nic/wire/flow.h"

namespace verbena::wire {
namespace {

constexpr std::uint8_t protocol_udp = 17;

std::uint16_t internet_checksum(std::span<const std::byte, ipv4_size> header) {
	std::uint32_t sum = 0;
	for (std::size_t i = 0; i < ipv4_size; i += 2) sum += load_be16(&header[i]);
	while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
	return static_cast<std::uint16_t>(~sum);
}

}  // namespace

void write_grh(std::span<std::byte, grh_size> to, const AddressPair& addresses, std::size_t packet_bytes) {
	Gid destination;
	std::memcpy(destination.data(), addresses.destination, destination.size());
	const auto udp_length = static_cast<std::uint16_t>(udp_size + packet_bytes);
	if (!is_ipv4_mapped(destination)) {
		store_be32(
			&to[0], 0x60000000 | std::uint32_t{addresses.traffic_class} << 20 | (addresses.flow_label & 0xfffff));
		store_be16(&to[4], udp_length);
		store_be8(&to[6], protocol_udp);
		store_be8(&to[7], addresses.hop_limit);
		std::memcpy(&to[8], addresses.source, 16);
		std::memcpy(&to[24], addresses.destination, 16);
		return;
	}
	std::memset(to.data(), 0, grh_size);
	const std::span<std::byte, ipv4_size> ip = to.last<ipv4_size>();
	store_be8(&ip[0], 0x45);
	store_be8(&ip[1], addresses.traffic_class);
	store_be16(&ip[2], static_cast<std::uint16_t>(ipv4_size + udp_length));
	store_be16(&ip[6], 0x4000);  // DF
	store_be8(&ip[8], addresses.hop_limit);
	store_be8(&ip[9], protocol_udp);
	std::memcpy(&ip[12], addresses.source + 12, 4);
	std::memcpy(&ip[16], addresses.destination + 12, 4);
	store_be16(&ip[10], internet_checksum(ip));
}

}  // namespace verbena::wire
