// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <bit>

namespace verbena {
namespace {

// 4.2.2
constexpr std::array<std::uint32_t, 64> constants{0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
	0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc,
	0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1,
	0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
	0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814,
	0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load(const std::byte* at) {
	std::uint32_t word = 0;
	for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(at[i]);
	return word;
}

void store(std::byte* at, std::uint32_t word) {
	for (int i = 3; i >= 0; --i, word >>= 8) at[i] = static_cast<std::byte>(word);
}

std::uint32_t turned(std::uint32_t x, int a, int b, int c) {
	return std::rotr(x, a) ^ std::rotr(x, b) ^ std::rotr(x, c);
}

}  // namespace

// 6.2.2
void Sha256::add_block() {
	std::array<std::uint32_t, 64> words;
	for (std::size_t i = 0; i < 16; ++i) words[i] = load(block_.data() + 4 * i);
	for (std::size_t i = 16; i < words.size(); ++i) {
		const std::uint32_t early = words[i - 15], late = words[i - 2];
		words[i] = words[i - 16] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + words[i - 7] +
			(std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10);
	}
	auto [a, b, c, d, e, f, g, h] = state_;
	for (std::size_t i = 0; i < words.size(); ++i) {
		const std::uint32_t first = h + turned(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + constants[i] + words[i];
		const std::uint32_t second = turned(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
		h = g, g = f, f = e, e = d + first;
		d = c, c = b, b = a, a = first + second;
	}
	const std::array<std::uint32_t, 8> after{a, b, c, d, e, f, g, h};
	for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += after[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
	for (const std::byte each : bytes) {
		block_[bytes_++ % block_bytes] = each;
		if (bytes_ % block_bytes == 0) add_block();
	}
}

// 5.1.1: a bit 1, bits 0, and the length in bits as 64 bits at the end of a block.
Sha256::Digest Sha256::finish() {
	const std::uint64_t bits = bytes_ * 8;
	constexpr std::byte one{0x80}, zero{0};
	update({&one, 1});
	while (bytes_ % block_bytes != block_bytes - 8) update({&zero, 1});
	std::array<std::byte, 8> length;
	store(length.data(), static_cast<std::uint32_t>(bits >> 32));
	store(length.data() + 4, static_cast<std::uint32_t>(bits));
	update(length);
	Digest digest;
	for (std::size_t i = 0; i < state_.size(); ++i) store(digest.data() + 4 * i, state_[i]);
	return digest;
}

}  // namespace verbena
