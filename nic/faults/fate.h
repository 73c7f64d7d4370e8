// SPDX-License-Identifier: Apache-2.0
// The fate of a packet: which faults it meets. The decision depends on the seed, the packet's
// identity and the number of times that it was sent before, and on nothing else, so a second run of
// the same program with the same seed has the same faults.
//
// Queue pair numbers and first PSNs are random. So an identity has neither: it counts queue pairs
// in the order of their creation, and packets from the first PSN.
//
// Threads: fate_of() any; a Repetitions object belongs to one thread at a time.
// Invariants: each fault has a draw of its own, so a change of one probability does not change
//   which packets meet the other faults.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "nic/faults/spec/spec.h"

namespace verbena::faults {

// A packet, the same in each run.
struct Identity {
	std::uint32_t queue_pair = 0;  // this process's, from 1; 0: none, as for management datagrams
	std::uint32_t number = 0;  // packets since the first PSN, modulo 2^24
	std::uint8_t opcode = 0;
	bool arrives = false;  // this process receives it

	std::uint64_t hash() const;
};

struct Fate {
	bool lost = false, duplicated = false, reordered = false, corrupted = false, breaks_queue_pair = false;
	std::uint64_t bits = 0;  // which bits are flipped if it is corrupted
	Nanoseconds delay = 0;  // by `delay` and `reorder`
};

// The longest time for which a reordered packet is held back, and the shortest.
inline constexpr Nanoseconds reorder_max = 60'000, reorder_min = 20'000;

// The fate of a packet that leaves. `times`: how often it was sent before. A partition is not
// considered here, because it depends on the time.
Fate fate_of(const Faults&, std::uint64_t seed, const Identity&, std::uint32_t times);
// Whether a packet that arrives finds no receive.
bool finds_no_receive(const Faults&, std::uint64_t seed, const Identity&, std::uint32_t times);

// Flips one to three bits of a packet, as `bits` says.
void corrupt(std::vector<std::byte>& packet, std::uint64_t bits);

// Counts how often each packet was sent.
//
// The table has a fixed size. A packet that was not sent again for long is forgotten: no more than
// a window of packets can be sent again, and a window is much smaller than the table.
class Repetitions {
public:
	Repetitions() : sets_(sets) {}

	// The number of earlier calls for this identity.
	std::uint32_t count(const Identity&);

	static constexpr std::size_t sets = 8192, ways = 4;

private:
	struct Entry {
		std::uint64_t hash = 0;
		std::uint32_t times = 0;
		std::uint32_t used = 0;  // the time of the last use, in calls
	};
	struct Set {
		Entry entries[ways];
	};
	std::vector<Set> sets_;
	std::uint32_t calls_ = 0;
};

}  // namespace verbena::faults
