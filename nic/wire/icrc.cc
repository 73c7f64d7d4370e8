// SPDX-License-Identifier: Apache-2.0
#include "nic/wire/icrc.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "nic/wire/big_endian.h"
#include "nic/wire/bth.h"
#include "nic/wire/crc32.h"

namespace verbena::wire {
namespace {

// After the prefix. One pass of the CRC covers these bytes, and so the whole of a small packet.
constexpr std::size_t headers_max = 96;
constexpr std::uint16_t dont_fragment_bit = 0x4000;
constexpr std::size_t ones_size = 8;

// Writes the bytes that the ICRC covers before the BTH, and returns their number. `bytes` is the
// size of the UDP payload with its ICRC.
std::size_t write_prefix(std::byte* to, const Flow& flow, IpFields fields, std::size_t bytes) {
	std::memset(to, 0xff, ones_size);
	std::byte* ip = to + ones_size;
	std::byte* udp;
	const auto udp_length = static_cast<std::uint16_t>(udp_size + bytes);
	if (flow.is_ipv4()) {
		udp = ip + ipv4_size;
		store_be16(ip, 0x45ff);
		store_be16(ip + 2, static_cast<std::uint16_t>(ipv4_size + udp_length));
		store_be16(ip + 4, fields.id);
		store_be16(ip + 6, fields.dont_fragment ? dont_fragment_bit : 0);
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

std::uint32_t icrc(const Flow& flow, IpFields ip, const IcrcInput& packet) {
	const auto& [headers, payload, pad_count] = packet;
	check(headers.size() >= Bth::size && headers.size() <= headers_max && pad_count < 4,
		"an ICRC covers a BTH and at most 84 bytes after it");
	std::byte start[ones_size + ipv6_size + udp_size + headers_max];
	const std::size_t prefix = write_prefix(start, flow, ip, headers.size() + payload.size() + pad_count + icrc_size);
	std::memcpy(start + prefix, headers.data(), headers.size());
	start[prefix + 4] = std::byte{0xff};
	const bool fits = headers.size() + payload.size() <= headers_max;
	if (fits && !payload.empty()) std::memcpy(start + prefix + headers.size(), payload.data(), payload.size());
	std::uint32_t crc = crc32(0, std::span(start).first(prefix + headers.size() + (fits ? payload.size() : 0)));
	if (!fits) crc = crc32(crc, payload);
	static constexpr std::byte zeros[3] = {};
	return pad_count != 0 ? crc32(crc, std::span(zeros).first(pad_count)) : crc;
}

std::optional<IpFields> matching_ip_fields(const Flow& flow, std::span<const std::byte> datagram, IpFields likely) {
	const std::size_t covered = datagram.size() - icrc_size;
	std::uint32_t arrived = load_be32(&datagram[covered]);
	arrived = std::byteswap(arrived);
	const std::size_t headers = std::min(covered, headers_max);
	const std::uint32_t difference = arrived ^
		icrc(flow, likely,
			{.headers = datagram.first(headers), .payload = datagram.subspan(headers, covered - headers)});
	if (difference == 0) return likely;
	if (!flow.is_ipv4()) return std::nullopt;

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
