// SPDX-License-Identifier: Apache-2.0
// Two kinds of random numbers that must not be confused. `Random` is for simulation and tests: it
// is fast, and the same seed gives the same numbers. `secure_random` is for values that an attacker
// must not guess: queue pair numbers, packet sequence numbers, keys, tokens.
//
// Threads: a Random belongs to one thread at a time; secure_random is thread-safe.
// Errors: secure_random throws std::system_error if the kernel gives no random bytes, neither by
//   getrandom(2) nor by /dev/urandom. It never gives weaker ones.
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <sys/random.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>

#include "base/check.h"

namespace verbena {

// One step of SplitMix64. From any `state`, also 0, successive calls make the well-mixed seeds that
// xoshiro needs.
constexpr std::uint64_t split_mix(std::uint64_t& state) {
	std::uint64_t z = state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// xoshiro256** (Blackman and Vigna, 2018). It satisfies the requirements of a generator for
// <random>.
class Random {
public:
	using result_type = std::uint64_t;

	constexpr explicit Random(std::uint64_t seed) {
		for (std::uint64_t& word : state_) word = split_mix(seed);
	}

	static constexpr result_type min() { return 0; }
	static constexpr result_type max() { return ~result_type{0}; }

	constexpr result_type operator()() {
		const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
		const std::uint64_t shifted = state_[1] << 17;
		state_[2] ^= state_[0];
		state_[3] ^= state_[1];
		state_[1] ^= state_[2];
		state_[0] ^= state_[3];
		state_[2] ^= shifted;
		state_[3] = std::rotl(state_[3], 45);
		return result;
	}

	// A number from 0 to bound - 1. Its bias, at most bound / 2^64, does not matter to a
	// simulation.
	std::uint64_t below(std::uint64_t bound) {
		check(bound != 0, "a number below 0 does not exist");
		__extension__ using Wide = unsigned __int128;
		return static_cast<std::uint64_t>(Wide{(*this)()} * bound >> 64);
	}

	// True with the given probability: never for 0, always for 1.
	bool chance(double probability) { return static_cast<double>((*this)() >> 11) * 0x1p-53 < probability; }

private:
	std::array<std::uint64_t, 4> state_{};
};

namespace detail {

// Where getrandom() is missing (before Linux 3.17) or forbidden by a filter of system calls, the
// device gives the same bytes.
[[gnu::cold]] inline void fill_from_device(std::span<std::byte> bytes) {
	const int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	int error = device < 0 ? errno : 0;
	while (!bytes.empty() && error == 0) {
		const ssize_t got = read(device, bytes.data(), bytes.size());
		if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
		else if (got == 0) error = EIO;
		else if (errno != EINTR) error = errno;
	}
	if (device >= 0) close(device);
	if (error != 0) throw std::system_error(error, std::generic_category(), "random bytes of the kernel");
}

}  // namespace detail

// Fills `bytes` from the kernel's generator, which blocks only until it is seeded at boot
// (getrandom(2)).
inline void secure_random(std::span<std::byte> bytes) {
	while (!bytes.empty()) {
		const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
		if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
		else if (got == 0 || errno != EINTR) return detail::fill_from_device(bytes);
	}
}

// A random number from the whole range of the type.
template <class Integer>
	requires std::is_unsigned_v<Integer>
Integer secure_random() {
	Integer value;
	secure_random(std::as_writable_bytes(std::span(&value, 1)));
	return value;
}

}  // namespace verbena
