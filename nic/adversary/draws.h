// SPDX-License-Identifier: Apache-2.0
// The adversary's decisions: pure functions of the seed and of what the decision is about, never
// "the next random number". So the timing of threads and of the peer cannot change them, and a seed
// repeats them.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/time.h"
#include "nic/adversary/spec/spec.h"

namespace verbena::adversary {

// The object of a decision, the same in each run: queue pair numbers and PSNs are random, so an
// identity counts from the first one.
struct Identity {
	// The number of the queue pair or completion queue in the order of creation, from 1.
	std::uint32_t object = 0;
	std::uint32_t side = 0;  // for example: a request that arrives, or a response
	std::uint64_t number = 0;  // the packet, request or completion
	std::uint32_t part = 0;  // a part of the packet
};

inline std::uint64_t draw(std::uint64_t seed, Kind kind, const Identity& identity) {
	std::uint64_t state = seed;
	for (const std::uint64_t word : {std::uint64_t{identity.object} << 8 | static_cast<std::uint64_t>(kind),
			 std::uint64_t{identity.side} << 32 | identity.part, identity.number})
		state = split_mix(state) ^ word;
	return split_mix(state);
}

// The time for which something is held back. It comes when either has passed: this many
// observations of the program (it has got a completion, or has posted a request), or this time.
struct Delay {
	std::uint32_t observations = 1;
	Nanoseconds time = 0;
};

// The longest delay. A program that only looks at its memory makes no observation that the NIC
// could count.
inline constexpr Nanoseconds delay_max = 20'000'000;

inline Delay delay_of(std::uint64_t bits) {
	const std::uint64_t way = bits & 0x1ff;
	const Nanoseconds time = way == 0 ? delay_max : way < 8 ? 3'000'000 : way < 64 ? 500'000 : 100'000;
	return {1 + static_cast<std::uint32_t>(bits >> 8 & 0xf), time};
}

// The time for which an event or a message of a connection is late, or by which a verb is slow.
inline Nanoseconds slow_delay_of(std::uint64_t bits) {
	const std::uint64_t way = bits & 0xf;
	return way == 0 ? delay_max : way < 3 ? 5'000'000 : way < 8 ? 1'000'000 : 300'000;
}

// A decision of the adversary about one thing, for a trace.
struct Decision {
	Kind kind;
	std::uint32_t qpn = 0;  // 0: about no queue pair
	std::uint64_t bytes = 0;  // held back; 0: not about bytes
	// The thing is held back until either has passed: this many observations, or this time. Both
	// are 0 if it is lost.
	std::uint64_t observations = 0;
	Nanoseconds time = 0;
};

}  // namespace verbena::adversary
