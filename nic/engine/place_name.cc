// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/place_name.h"

#include <cstdio>

#include "base/sha256.h"

namespace verbena::engine {

namespace {

template <class... Values> SocketName format(const char* form, Values... values) {
	SocketName name;
	name.address.sun_family = AF_UNIX;
	const int written = std::snprintf(name.address.sun_path + 1, sizeof name.address.sun_path - 1, form, values...);
	name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(written));
	return name;
}

// Starts with the key, padded with zeros to a block of the hash, each byte combined with `pad`.
Sha256 started_with_key(const NameSecret& key, std::byte pad) {
	std::array<std::byte, Sha256::block_bytes> block;
	block.fill(pad);
	for (std::size_t i = 0; i < key.size(); ++i) block[i] ^= key[i];
	Sha256 hash;
	hash.update(block);
	return hash;
}

}  // namespace

Digest hmac_sha256(const NameSecret& key, std::span<const std::byte> bytes) {
	Sha256 inner = started_with_key(key, std::byte{0x36}), outer = started_with_key(key, std::byte{0x5c});
	inner.update(bytes);
	outer.update(inner.finish());
	return outer.finish();
}

SocketName keyed_name(const NameSecret& secret, std::uint64_t namespace_cookie, Place place, unsigned generation) {
	const std::array<std::uint64_t, 4> message{namespace_cookie, place.is_service, place.value, generation};
	const Digest digest = hmac_sha256(secret, std::as_bytes(std::span(message)));
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
