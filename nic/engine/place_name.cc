#include "nic/engine/place_name.h"

// The functions of OpenSSL's digest itself. The newer interface would link all of its providers,
// five megabytes, into every program.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <cstdio>

namespace verbena::engine {

namespace {

template <class... Values> SocketName format(const char* form, Values... values) {
	SocketName name;
	name.address.sun_family = AF_UNIX;
	const int written = std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1, form, values...);
	name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(written));
	return name;
}

// The key, padded with zeros to a block of the hash, each byte combined with `pad`.
void start_with_key(SHA256_CTX& hash, const NameSecret& key, unsigned char pad) {
	std::array<unsigned char, SHA256_CBLOCK> block;
	block.fill(pad);
	for (std::size_t i = 0; i < key.size(); ++i) block[i] ^= std::to_integer<unsigned char>(key[i]);
	SHA256_Init(&hash);
	SHA256_Update(&hash, block.data(), block.size());
}

}  // namespace

Digest hmac_sha256(const NameSecret& key, const void* bytes, std::size_t length) {
	static_assert(std::tuple_size_v<Digest> == SHA256_DIGEST_LENGTH);
	Digest digest;
	auto* const out = reinterpret_cast<unsigned char*>(digest.data());
	SHA256_CTX hash;
	start_with_key(hash, key, 0x36);
	SHA256_Update(&hash, bytes, length);
	SHA256_Final(out, &hash);
	start_with_key(hash, key, 0x5c);
	SHA256_Update(&hash, out, digest.size());
	SHA256_Final(out, &hash);
	return digest;
}

SocketName keyed_name(const NameSecret& secret, std::uint64_t namespace_cookie, Place place, unsigned generation) {
	const std::array<std::uint64_t, 4> message{namespace_cookie, place.is_service, place.value, generation};
	const Digest digest = hmac_sha256(secret, message.data(), sizeof message);
	std::array<char, 33> digits;
	for (std::size_t i = 0; i < 16; ++i)
		std::snprintf(digits.data() + 2 * i, 3, "%02x", std::to_integer<unsigned>(digest[i]));
	return format("verbena/%s", digits.data());
}

SocketName plain_name(uid_t user, Place place) {
	const char* const form = place.is_service ? "verbena/%u/cm/%llx" : "verbena/%u/qp/%llu";
	return format(form, user, static_cast<unsigned long long>(place.value));
}

SocketName public_name(Place place) {
	const char* const form = place.is_service ? "verbena/host/cm/%llx" : "verbena/host/qp/%llu";
	return format(form, static_cast<unsigned long long>(place.value));
}

}  // namespace verbena::engine
