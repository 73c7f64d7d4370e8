// Placement: which of several servers has a key, by rendezvous hashing (Thaler and Ravishankar, 1998): each server
// scores each key, and the greatest score has it. Whoever knows the same names places alike, in whatever order they
// stand. A server that joins takes its share of each of the others' keys and nothing else moves; one that leaves gives
// its share to all of them.
//
// Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "lib/async/socket.h"
#include "lib/kv/hash.h"

namespace verbena::kv {

// "host:port", with the port that a server without one has: the name by which it is scored.
inline std::expected<std::string, std::string> server_name(const std::string& text, std::uint16_t port_default) {
	const auto host = async::split_host(text, port_default);
	if (!host) return std::unexpected(host.error());
	const bool v6 = host->host.find(':') != host->host.npos;
	return (v6 ? "[" + host->host + "]" : host->host) + ":" + std::to_string(host->port);
}

inline std::uint64_t score_of(std::string_view server, std::string_view key) { return hash_of(key, hash_of(server)); }

// The index of the one that has it, of at least one.
template <class Servers> std::size_t owner_of(const Servers& servers, std::string_view key) {
	std::size_t best = 0;
	std::uint64_t best_score = 0;
	for (std::size_t i = 0; i < servers.size(); ++i) {
		const std::string_view name = servers[i];
		const std::uint64_t score = score_of(name, key);
		if (i == 0 || score > best_score || (score == best_score && name < std::string_view(servers[best]))) {
			best = i;
			best_score = score;
		}
	}
	return best;
}

}  // namespace verbena::kv
