// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for names that others must not be able to compute. It is here because the
// NIC must load no library that its program does not load.
//
// Threads: one thread for each object.
// Lifetime: finish() ends the use of an object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena {

class Sha256 {
public:
	static constexpr std::size_t block_bytes = 64;
	using Digest = std::array<std::byte, 32>;

	void update(std::span<const std::byte> bytes);
	Digest finish();

private:
	void add_block();

	// 5.3.3
	std::array<std::uint32_t, 8> state_{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	std::array<std::byte, block_bytes> block_{};
	std::uint64_t bytes_ = 0;  // hashed so far, with those of the block that is not full
};

}  // namespace verbena
