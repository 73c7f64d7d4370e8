// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/place_name.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

namespace verbena::engine {
namespace {

std::string text_of(const SocketName& name) {
	const auto length = name.length - offsetof(sockaddr_un, sun_path) - 1;
	return {name.address.sun_path + 1, length};
}

NameSecret secret_of(std::string_view text) {
	NameSecret secret{};
	std::memcpy(secret.data(), text.data(), text.size());
	return secret;
}

std::string hex(const Digest& digest) {
	std::string digits;
	for (const std::byte each : digest) {
		char two[3];
		std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(each));
		digits += two;
	}
	return digits;
}

// A shorter key is padded with zeros, so these keys of 20, 4, 20 and 25 bytes are keys of 32 bytes
// too.
TEST(HmacSha256, GivesTheResultsOfRfc4231) {
	std::string counting;
	for (char byte = 1; byte <= 25; ++byte) counting += byte;
	const struct {
		std::string key, data, digest;
	} cases[] = {
		{std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
		{"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{std::string(20, '\xaa'), std::string(50, '\xdd'),
			"773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
		{counting, std::string(50, '\xcd'), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
	};
	for (const auto& each : cases)
		EXPECT_EQ(hex(hmac_sha256(secret_of(each.key), std::as_bytes(std::span(each.data)))), each.digest);
}

TEST(PlaceName, AKeyedNameDependsOnSecretNamespacePlaceAndGeneration) {
	const NameSecret one = secret_of("one"), other = secret_of("other");
	const std::set<std::string> names{
		text_of(keyed_name(one, 1, Place::block(7), 0)),
		text_of(keyed_name(other, 1, Place::block(7), 0)),
		text_of(keyed_name(one, 2, Place::block(7), 0)),
		text_of(keyed_name(one, 1, Place::block(8), 0)),
		text_of(keyed_name(one, 1, Place::service(7), 0)),
		text_of(keyed_name(one, 1, Place::block(7), 1)),
	};
	EXPECT_EQ(names.size(), 6u);
	EXPECT_EQ(text_of(keyed_name(one, 1, Place::block(7), 0)), text_of(keyed_name(one, 1, Place::block(7), 0)));
	for (const std::string& name : names) {
		EXPECT_EQ(name.size(), std::strlen("verbena/") + 32) << name;
		EXPECT_TRUE(name.starts_with("verbena/")) << name;
	}
}

TEST(PlaceName, APlainNameShowsUserAndPlace) {
	EXPECT_EQ(text_of(plain_name(1000, Place::block(17))), "verbena/1000/qp/17");
	EXPECT_EQ(text_of(plain_name(0, Place::service(0x1061d23))), "verbena/0/cm/1061d23");
}

}  // namespace
}  // namespace verbena::engine
