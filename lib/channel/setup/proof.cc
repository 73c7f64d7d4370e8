// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/proof.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "base/check.h"
#include "lib/channel/setup/openssl.h"

namespace verbena::channel {
namespace {

constexpr std::array<std::byte, 4> magic{std::byte{'V'}, std::byte{'B'}, std::byte{'P'}, std::byte{'F'}};
constexpr std::byte version{1};
constexpr std::size_t role_at = 5, setup_at = 8, hmac_at = 16;

using Digest = std::array<std::byte, 32>;

Digest sha256(std::initializer_list<std::span<const std::byte>> parts) {
	using Context = std::unique_ptr<EVP_MD_CTX, ossl::Deleter<EVP_MD_CTX_free>>;
	const Context context(EVP_MD_CTX_new());
	Digest digest;
	bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
	for (const auto part : parts) good = good && EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
	good = good && EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1;
	check(good, "OpenSSL has SHA-256");
	return digest;
}

constexpr Role other(Role role) { return role == Role::client ? Role::server : Role::client; }

Proof proof_of(const ProofKeys& keys, Role sender) {
	Proof proof{};
	std::ranges::copy(magic, proof.begin());
	proof[4] = version;
	proof[role_at] = static_cast<std::byte>(sender);
	std::ranges::copy(keys.setup, proof.begin() + setup_at);
	// The HMAC covers the header too: magic, version, the sender's role.
	std::array<std::byte, hmac_at + sizeof(Digest)> text;
	std::copy_n(proof.begin(), hmac_at, text.begin());
	std::ranges::copy(keys.transcript, text.begin() + hmac_at);
	unsigned size = 0;
	const auto* done = HMAC(EVP_sha256(), keys.key.data(), static_cast<int>(keys.key.size()),
		reinterpret_cast<const unsigned char*>(text.data()), text.size(),
		reinterpret_cast<unsigned char*>(proof.data() + hmac_at), &size);
	check(done && size == proof_size - hmac_at, "OpenSSL has HMAC-SHA256");
	return proof;
}

}  // namespace

ProofKeys make_proof_keys(Role own_role, const std::optional<ExporterKey>& key, std::span<const std::byte> client,
	std::span<const std::byte> server) {
	const auto from_client = decode(client), from_server = decode(server);
	check(from_client && from_server, "a set-up ended with two messages that were read");
	ProofKeys keys{.own_role = own_role};
	if (key) keys.key = *key;
	// The client's message begins with its length, so the boundary between the two messages is
	// fixed.
	keys.transcript = sha256({client, server});
	const Digest setup = sha256({from_client->nonce, from_server->nonce});
	std::copy_n(setup.begin(), keys.setup.size(), keys.setup.begin());
	return keys;
}

Proof make_proof(const ProofKeys& keys) { return proof_of(keys, keys.own_role); }

std::expected<void, ProofError> check_proof(const ProofKeys& keys, std::span<const std::byte> message) {
	if (message.size() < proof_size) return std::unexpected(ProofError::truncated);
	if (message.size() > proof_size) return std::unexpected(ProofError::oversized);
	const Proof wanted = proof_of(keys, other(keys.own_role));
	if (!std::ranges::equal(message.first(role_at), std::span(wanted).first(role_at)))
		return std::unexpected(ProofError::garbage);
	if (message[role_at] == static_cast<std::byte>(keys.own_role)) return std::unexpected(ProofError::reflected);
	if (!std::ranges::equal(
			message.subspan(role_at, setup_at - role_at), std::span(wanted).subspan(role_at, setup_at - role_at)))
		return std::unexpected(ProofError::garbage);
	if (!std::ranges::equal(message.subspan(setup_at, keys.setup.size()), keys.setup))
		return std::unexpected(ProofError::replayed);
	if (CRYPTO_memcmp(message.data() + hmac_at, wanted.data() + hmac_at, sizeof(Digest)) != 0)
		return std::unexpected(ProofError::forged);
	return {};
}

std::string_view describe(ProofError error) {
	switch (error) {
		case ProofError::truncated: return "the first message of the channel is too short for the peer's proof";
		case ProofError::oversized: return "the first message of the channel is too long for the peer's proof";
		case ProofError::garbage:
			return "the first message of the channel is not a proof: another program sends on this queue pair";
		case ProofError::reflected: return "the first message of the channel is our own proof, sent back";
		case ProofError::replayed: return "the first message of the channel is the proof of another connection";
		case ProofError::forged: break;
	}
	return "the peer's proof is wrong: it is not the peer of the set-up, or the parameters were changed on the way";
}

}  // namespace verbena::channel
