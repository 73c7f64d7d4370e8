// GIDs as text and by kind. Pure functions over values.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace verbena::lib {

// Eight groups of four hex digits with or without their colons (32 digits), or any IPv6 form ("fe80::1",
// "::ffff:10.0.0.1"). The error names the text.
std::expected<ibv_gid, std::string> parse_gid(std::string_view text);

// Always eight groups of four lower-case hex digits: fd93:16d3:0000:....
std::string format_gid(const ibv_gid& gid);

// In the order in which a program that must choose prefers them.
enum class GidKind : std::uint8_t { ipv4, ipv6, link_local, loopback, empty };

// ipv4 is ::ffff:a.b.c.d (RoCE v2's mapping); loopback is 127/8 mapped or ::1; empty has no interface half.
GidKind kind_of(const ibv_gid& gid);
bool is_ipv4_mapped(const ibv_gid& gid);  // what is not is IPv6; a RoCE v2 packet has both ends of one family
std::string_view name_of(GidKind kind);

}  // namespace verbena::lib
