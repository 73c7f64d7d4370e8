// The proof that whoever speaks on a queue pair is whom the set-up was with: the first message each way over the queue
// pair.
//
//     magic "VBPF" | version u8 | sender's role u8 | 0 u16 | set-up u64 | HMAC-SHA256, 32 bytes        48 bytes
//
// The HMAC is under the TLS session's exporter key over the sender's role and both parameter messages, byte by byte as
// they crossed. So the two ends hold the same parameters, and nobody without that session speaks for either. `set-up`
// is from both nonces: it tells a message of another set-up from a forged one. In a set-up in clear (--insecure) the
// key is known to all: what is left is a check that both ends hold the same parameters.
//
// Values and pure functions. A receiver takes exactly one proof a connection, as the first message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string_view>

#include "lib/channel/setup/parameters.h"
#include "lib/channel/setup/tls_session.h"

namespace verbena::channel {

inline constexpr std::size_t proof_size = 48;
using Proof = std::array<std::byte, proof_size>;

struct ProofKeys {
	Role own_role = Role::client;
	ExporterKey key{};                      // all zero for a set-up in clear
	std::array<std::byte, 32> transcript{};  // SHA-256 over both messages, the client's first
	std::array<std::byte, 8> setup{};
};

// `client` and `server` are the two messages as they crossed, `own_role` whose end this is. Without a key: in clear.
ProofKeys make_proof_keys(Role own_role, const std::optional<ExporterKey>& key, std::span<const std::byte> client,
	std::span<const std::byte> server);

enum class ProofError : std::uint8_t {
	truncated,   // shorter than a proof
	oversized,   // longer than a proof
	garbage,     // no proof at all
	reflected,   // our own, sent back
	replayed,    // of another set-up
	forged,      // of this set-up, with the wrong HMAC: another session's key, or other parameters
};

// One sentence for the log.
std::string_view describe(ProofError error);

// Of this end.
Proof make_proof(const ProofKeys& keys);
// Of the peer. Takes the same time whichever byte of the HMAC is wrong.
std::expected<void, ProofError> check_proof(const ProofKeys& keys, std::span<const std::byte> message);

}  // namespace verbena::channel
