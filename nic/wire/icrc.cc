// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/icrc.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "nic/wire/big_endian.h"
#include "nic/wire/bth.h"
#include "nic/wire/crc32.h"

namespace verbena::wire {
namespace {

constexpr std::uint16_t dont_fragment_bit = 0x4000;
constexpr std::size_t ones_size = 8;
// Byte 4 of the BTH counts as ones.
constexpr std::uint64_t bth_ones = std::uint64_t{0xff} << 32;

// Writes the bytes that the ICRC covers before the BTH, with the IPv4 fields {}, and returns their
// number. `bytes` is the size of the UDP payload with its ICRC.
std::size_t write_prefix(std::byte* to, const Flow& flow, std::size_t bytes) {
	std::memset(to, 0xff, ones_size);
	std::byte* ip = to + ones_size;
	std::byte* udp;
	const auto udp_length = static_cast<std::uint16_t>(udp_size + bytes);
	if (flow.is_ipv4()) {
		udp = ip + ipv4_size;
		store_be16(ip, 0x45ff);
		store_be16(ip + 2, static_cast<std::uint16_t>(ipv4_size + udp_length));
		store_be16(ip + 4, IpFields{}.id);
		store_be16(ip + 6, dont_fragment_bit);
		store_be16(ip + 8, 0xff11);
		store_be16(ip + 10, 0xffff);
		std::memcpy(ip + 12, &flow.source[12], 4);
		std::memcpy(ip + 16, &flow.destination[12], 4);
	} else {
		udp = ip + ipv6_size;
		store_be32(ip, 0x6fffffff);
		store_be16(ip + 4, udp_length);
		store_be16(ip + 6, 0x11ff);
		std::memcpy(ip + 8, flow.source.data(), 16);
		std::memcpy(ip + 24, flow.destination.data(), 16);
	}
	store_be16(udp, flow.source_port);
	store_be16(udp + 2, flow.destination_port);
	store_be16(udp + 4, udp_length);
	store_be16(udp + 6, 0xffff);
	return static_cast<std::size_t>(udp + udp_size - to);
}

// The change of the prefix's checksum if the bits of `byte` change in a byte that is followed by
// `rest` bytes of the prefix.
constexpr std::uint32_t change_of(std::uint32_t byte, std::uint32_t rest) {
	return polynomial::product(byte, polynomial::power(8 * (rest + 1)));
}
struct ChangesByIpFields {
	std::array<std::uint32_t, 256> id_high{}, id_low{};
	std::uint32_t dont_fragment = 0;
};
constexpr auto changes = [] {
	// After the identification come the flags, 12 bytes from the time to live on, and UDP.
	constexpr std::uint32_t after_id = 2 + 12 + udp_size;
	ChangesByIpFields c;
	for (std::uint32_t b = 0; b < 256; ++b) {
		c.id_high[b] = change_of(b, after_id + 1);
		c.id_low[b] = change_of(b, after_id);
	}
	c.dont_fragment = change_of(dont_fragment_bit >> 8, after_id - 1);
	return c;
}();

// x^(-8n) as a product of one entry of each table, for n up to 64 * 1024.
constexpr std::size_t low_steps = 256, high_steps = 256;
struct BackwardSteps {
	std::array<std::uint32_t, low_steps> low;    // [n]: n bytes
	std::array<std::uint32_t, high_steps> high;  // [n]: n * 256 bytes
};
constexpr auto backward = [] {
	BackwardSteps steps{};
	const auto fill = [](auto& table, std::uint32_t step) {
		table[0] = polynomial::one;
		for (std::size_t n = 1; n < table.size(); ++n) table[n] = polynomial::product(table[n - 1], step);
	};
	std::uint32_t byte = polynomial::one;
	for (int bit = 0; bit < 8; ++bit) byte = polynomial::over_x(byte);
	fill(steps.low, byte);
	fill(steps.high, polynomial::product(steps.low[low_steps - 1], byte));
	return steps;
}();

}  // namespace

IcrcPrefix::IcrcPrefix(const Flow& flow, std::size_t bytes) : bytes_(bytes), is_ipv4_(flow.is_ipv4()) {
	std::byte start[ones_size + ipv6_size + udp_size];
	crc_ = crc32(0, std::span(start).first(write_prefix(start, flow, bytes)));
}

std::uint32_t IcrcPrefix::with(IpFields fields) const {
	if (!is_ipv4_) return crc_;
	return crc_ ^ changes.id_high[fields.id >> 8] ^ changes.id_low[fields.id & 0xff] ^
		(fields.dont_fragment ? 0 : changes.dont_fragment);
}

std::uint32_t icrc(const IcrcPrefix& prefix, IpFields ip, const IcrcInput& packet) {
	const auto& [headers, payload, pad_count] = packet;
	check(headers.size() >= Bth::size && pad_count < 4, "an ICRC covers a BTH");
	check(
		headers.size() + payload.size() + pad_count + icrc_size == prefix.bytes(), "the prefix has the packet's size");
	// A packet in one piece takes one pass.
	const bool in_one = payload.empty() || headers.data() + headers.size() == payload.data();
	std::uint32_t crc =
		crc32_with_ones(prefix.with(ip), {headers.data(), headers.size() + (in_one ? payload.size() : 0)}, bth_ones);
	if (!in_one) crc = crc32(crc, payload);
	static constexpr std::byte zeros[3] = {};
	return pad_count != 0 ? crc32(crc, std::span(zeros).first(pad_count)) : crc;
}

std::uint32_t icrc(const Flow& flow, IpFields ip, const IcrcInput& packet) {
	const std::size_t bytes = packet.headers.size() + packet.payload.size() + packet.pad_count + icrc_size;
	return icrc(IcrcPrefix(flow, bytes), ip, packet);
}

std::optional<IpFields> matching_ip_fields(
	const IcrcPrefix& prefix, std::span<const std::byte> datagram, IpFields likely) {
	const std::size_t covered = datagram.size() - icrc_size;
	std::uint32_t arrived = load_be32(&datagram[covered]);
	arrived = std::byteswap(arrived);
	const std::uint32_t difference =
		arrived ^ icrc(prefix, likely, {.headers = datagram.first(covered), .payload = {}});
	if (difference == 0) return likely;
	if (!prefix.is_ipv4()) return std::nullopt;

	// Divide by x^8 for each byte from the end of the covered bytes back to the start of the
	// identification. After its start come 16 bytes of IP header and the UDP header.
	const std::size_t back = covered + udp_size + ipv4_size - 4;
	if (back / low_steps >= high_steps) return std::nullopt;
	const std::uint32_t at_field = polynomial::product(
		polynomial::product(difference, backward.low[back % low_steps]), backward.high[back / low_steps]);
	// The first two bytes of the quotient are the identification, the other two the flags and the
	// fragment offset.
	const std::uint16_t id = std::byteswap(static_cast<std::uint16_t>(at_field));
	const std::uint16_t flags = std::byteswap(static_cast<std::uint16_t>(at_field >> 16));
	if ((flags & ~dont_fragment_bit) != 0) return std::nullopt;
	return IpFields{static_cast<std::uint16_t>(likely.id ^ id), likely.dont_fragment != (flags != 0)};
}

}  // namespace verbena::wire
