// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace verbena {
namespace {

std::string digest_of(const std::string& text, std::size_t step) {
	Sha256 hash;
	for (std::size_t at = 0; at < text.size(); at += step)
		hash.update(std::as_bytes(std::span(text).subspan(at, std::min(step, text.size() - at))));
	std::string hex;
	for (const std::byte each : hash.finish()) {
		char digits[3];
		std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(each));
		hex += digits;
	}
	return hex;
}

// The examples of NIST for FIPS 180-4: no block, one, two, and a million bytes.
TEST(Sha256, GivesThePublishedDigests) {
	EXPECT_EQ(digest_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	EXPECT_EQ(digest_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	EXPECT_EQ(digest_of(two, 64), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	EXPECT_EQ(digest_of(std::string(1'000'000, 'a'), 1000),
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
	const std::string text(300, 'x');
	for (const std::size_t step : {1u, 7u, 63u, 64u, 65u, 300u})
		EXPECT_EQ(digest_of(text, step), digest_of(text, 100)) << step;
}

}  // namespace
}  // namespace verbena
