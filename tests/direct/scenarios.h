// SPDX-License-Identifier: Apache-2.0
// The scenarios of direct.cc. Each has a target's and an initiator's part, which run in two
// processes at the same time.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "side.h"

using Clock = std::chrono::steady_clock;
constexpr std::size_t region_bytes = 1 << 20;

// The initiator's process, as the target sees it.
struct Initiator {
	pid_t pid = 0;
	int socket = -1;

	Initiator(const char* scenario, int rounds);  // starts it
	void await_stop() const;
	void await_end() const;
	void kill(int signal) const;
};

inline std::uint64_t digest(const unsigned char* from, std::size_t bytes) {
	std::uint64_t sum = 14695981039346656037u;
	for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ from[i]) * 1099511628211u;
	return sum;
}
inline bool all_are(const unsigned char* from, std::size_t bytes, unsigned char value) {
	return std::all_of(from, from + bytes, [value](unsigned char each) { return each == value; });
}
inline void fill(Side& s, unsigned seed) {
	for (std::size_t i = 0; i < s.bytes; ++i)
		s.memory[i] = static_cast<unsigned char>((i * 31 + i / 4096 + seed) ^ (i >> 8));
}

// memory.cc
void all_lengths_target(Side&);
void all_lengths_initiator(Side&);
void reads_target(Side&);
void reads_initiator(Side&);
void order_target(Side&, int rounds);
void order_initiator(Side&, int rounds);
void last_byte_target(Side&, int rounds);
void last_byte_initiator(Side&, int rounds);
void atomics_target(Side&, int rounds);
void atomics_initiator(Side&, int rounds);
void self_target(Side&);
void threads_target(Side&, int rounds);
void threads_initiator(Side&, int rounds);
void asleep_target(Side&);
void asleep_initiator(Side&);
void asleep_beside_target(Side&);
void asleep_beside_initiator(Side&, int rounds);
void answers_target(Side&, int rounds, int signaled);
void answers_initiator(Side&, int rounds, int signaled);
// mixture.cc
void mixture_target(Side&);
void mixture_initiator(Side&, int rounds);
// withdrawal.cc
enum class Taken { key, queue_pair };
void stopped_target(Side&);
void stopped_initiator(Side&);
void taken_target(Side&, Initiator&, int rounds, int signal, Taken);
void taken_initiator(Side&);
void killed_target(Side&);
void killed_initiator(Side&);
