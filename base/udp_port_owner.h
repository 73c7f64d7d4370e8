// SPDX-License-Identifier: Apache-2.0
// The user who has bound a UDP port, from the kernel's tables of sockets.
//
// Threads: any. Reads /proc/net, so it is for messages about errors and not for each packet.
// Errors: nothing if no socket has the port, or the tables cannot be read.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

namespace verbena {

// The user id in a line of /proc/net/udp if its socket is bound to `port`.
//
//     slot: local_address:port rem_address:port st tx:rx tr:when retrnsmt uid timeout inode ...
inline std::optional<std::uint32_t> udp_port_owner_in(const char* line, std::uint16_t port) {
	unsigned bound = 0;
	std::uint32_t uid = 0;
	if (std::sscanf(line, "%*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %" SCNu32, &bound, &uid) != 2) return std::nullopt;
	return bound == port ? std::optional(uid) : std::nullopt;
}

// As `table` says, which is /proc/net/udp or /proc/net/udp6.
inline std::optional<std::uint32_t> udp_port_owner(std::uint16_t port, const char* table) {
	std::optional<std::uint32_t> owner;
	std::FILE* const file = std::fopen(table, "re");
	if (file == nullptr) return owner;
	for (char line[512]; !owner && std::fgets(line, sizeof line, file);) owner = udp_port_owner_in(line, port);
	std::fclose(file);
	return owner;
}

inline std::optional<std::uint32_t> udp_port_owner(std::uint16_t port) {
	const auto owner = udp_port_owner(port, "/proc/net/udp");
	return owner ? owner : udp_port_owner(port, "/proc/net/udp6");
}

}  // namespace verbena
