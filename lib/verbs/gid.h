// SPDX-License-Identifier: Apache-2.0
// GIDs: text, and the kind of address that a GID was made from.
//
// Threads: pure functions.
// Errors: a sentence for the user that names the text.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace verbena::lib {

// Reads eight groups of four hex digits, with or without their colons (32 digits), or any IPv6
// form, such as "fe80::1" and "::ffff:10.0.0.1".
std::expected<ibv_gid, std::string> parse_gid(std::string_view text);

// Writes eight groups of four lower-case hex digits: fd93:16d3:0000:....
std::string format_gid(const ibv_gid& gid);

// Kinds of GIDs, the most preferred first; choose() in device.h compares them in this order.
enum class GidKind : std::uint8_t { ipv4, ipv6, link_local, loopback, empty };

// ipv4 is ::ffff:a.b.c.d, the mapping of RoCE v2 (IBA Annex A17); loopback is 127/8 mapped, or ::1;
// empty has an all-zero interface half.
GidKind kind_of(const ibv_gid& gid);
// Any other GID is IPv6. Both ends of a RoCE v2 packet have addresses of one family.
bool is_ipv4_mapped(const ibv_gid& gid);
std::string_view name_of(GidKind kind);

}  // namespace verbena::lib
