// SPDX-License-Identifier: Apache-2.0
// The proof that the peer on the queue pair is the peer of the set-up: the first message each way
// on the queue pair.
//
//     magic "VBPF" | version u8 | sender's role u8 | 0 u16 | set-up u64 | HMAC-SHA256, 32 bytes
//
// The HMAC uses the exporter key of the TLS session and covers the sender's role and both parameter
// messages, byte by byte as they were sent. So both ends hold the same parameters, and no one
// without that session can speak for either end. `set-up` is derived from both nonces; it
// distinguishes the proof of another set-up from a forged one. For a set-up in clear (--insecure)
// the key is public: then the proof only checks that both ends hold the same parameters.
//
// Threads: values and pure functions.
// Invariants: a receiver takes exactly one proof for each connection, as its first message.
// Errors: ProofError; the peer is untrusted.
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
	std::array<std::byte, 32> transcript{};  // SHA-256 of both messages, the client's first
	std::array<std::byte, 8> setup{};
};

// `client` and `server` are the two messages as they were sent; `own_role` is the role of this end.
// No key: in clear.
ProofKeys make_proof_keys(Role own_role, const std::optional<ExporterKey>& key, std::span<const std::byte> client,
	std::span<const std::byte> server);

enum class ProofError : std::uint8_t {
	truncated,   // shorter than a proof
	oversized,   // longer than a proof
	garbage,     // not a proof
	reflected,   // this end's own proof, sent back
	replayed,    // the proof of another set-up
	forged,      // wrong HMAC: another session's key, or other parameters
};

// One sentence for the log.
std::string_view describe(ProofError error);

// The proof that this end sends.
Proof make_proof(const ProofKeys& keys);
// Checks the peer's proof, in constant time for the HMAC.
std::expected<void, ProofError> check_proof(const ProofKeys& keys, std::span<const std::byte> message);

}  // namespace verbena::channel
