// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace verbena::lib {

std::expected<ibv_gid, std::string> parse_gid(std::string_view text) {
	std::string colons;
	if (text.size() == 32 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos) {
		for (std::size_t i = 0; i < 32; i += 4) colons += (i == 0 ? "" : ":") + std::string(text.substr(i, 4));
	} else {
		colons = text;
	}
	ibv_gid gid{};
	if (colons.size() != std::strlen(colons.c_str()) || inet_pton(AF_INET6, colons.c_str(), gid.raw) != 1)
		return std::unexpected("'" + std::string(text) + "' is not a GID (32 hex digits, with or without colons)");
	return gid;
}

std::string format_gid(const ibv_gid& gid) {
	std::string text;
	for (int group = 0; group < 8; ++group) {
		char digits[5];
		std::snprintf(digits, sizeof digits, "%02x%02x", gid.raw[2 * group], gid.raw[2 * group + 1]);
		if (group > 0) text += ':';
		text += digits;
	}
	return text;
}

bool is_ipv4_mapped(const ibv_gid& gid) {
	const std::uint8_t* raw = gid.raw;
	return std::all_of(raw, raw + 10, [](std::uint8_t byte) { return byte == 0; }) && raw[10] == 0xff &&
		raw[11] == 0xff;
}

GidKind kind_of(const ibv_gid& gid) {
	const std::uint8_t* raw = gid.raw;
	const bool no_interface = std::all_of(raw + 8, raw + 16, [](std::uint8_t byte) { return byte == 0; });
	const bool no_prefix = std::all_of(raw, raw + 8, [](std::uint8_t byte) { return byte == 0; });
	if (no_interface) return GidKind::empty;
	if (is_ipv4_mapped(gid)) return raw[12] == 127 ? GidKind::loopback : GidKind::ipv4;
	if (no_prefix && raw[15] == 1 && std::all_of(raw + 8, raw + 15, [](std::uint8_t byte) { return byte == 0; }))
		return GidKind::loopback;
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? GidKind::link_local : GidKind::ipv6;
}

std::string_view name_of(GidKind kind) {
	switch (kind) {
		case GidKind::ipv4: return "IPv4";
		case GidKind::ipv6: return "IPv6";
		case GidKind::link_local: return "link-local";
		case GidKind::loopback: return "loopback";
		case GidKind::empty: return "empty";
	}
	return "?";
}

}  // namespace verbena::lib
