// SPDX-License-Identifier: Apache-2.0
// Placement: which of several servers has a key, by rendezvous hashing (Thaler and Ravishankar,
// 1998).
//
// Each pair of a server and a key has a score; the key belongs to the server with the highest one.
// All clients that know the same set of names agree, in whatever order they list them. When a
// server joins, it takes an equal share of keys from each other server; when one leaves, its keys
// spread over all others. No other key moves.
//
// The members of a cluster place slots instead of keys: a key belongs to the slot that the first
// bits of its hash select, and the slot to the server with the highest score for it.
//
// Threads: any; pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "lib/async/socket.h"
#include "lib/kv/hash.h"
#include "lib/kv/state/ownership.h"

namespace verbena::kv {

// Returns "host:port", with `port_default` if `text` has no port: the name that score_of() takes.
inline std::expected<std::string, std::string> server_name(const std::string& text, std::uint16_t port_default) {
	const auto host = async::split_host(text, port_default);
	if (!host) return std::unexpected(host.error());
	const bool v6 = host->host.find(':') != host->host.npos;
	return (v6 ? "[" + host->host + "]" : host->host) + ":" + std::to_string(host->port);
}

inline std::uint64_t score_of(std::string_view server, std::string_view key) { return hash_of(key, hash_of(server)); }

// The index of the server that has the key; `servers` is not empty. Equal scores go to the lesser
// name, so the order of `servers` does not matter.
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

// The slot of a key.
inline std::size_t slot_of(std::string_view key) { return hash_of(key) >> 54; }
static_assert(slot_count == std::size_t{1} << (64 - 54));

// The index of the member that has the slot; `members` is not empty.
template <class Members> std::size_t owner_of_slot(const Members& members, std::size_t slot) {
	const char number[] = {static_cast<char>(slot & 0xff), static_cast<char>(slot >> 8)};
	return owner_of(members, std::string_view(number, sizeof number));
}

}  // namespace verbena::kv
