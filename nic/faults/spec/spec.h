// SPDX-License-Identifier: Apache-2.0
// The text of `verbena run --faults`: which faults the packets of a program meet.
//
//     spec   = clause {";" clause}
//     clause = word {"," word}
//     word   = filter | fault | "seed=" NUMBER
//     filter = "peer=" ADDRESS | "qp=" NUMBER
//     fault  = ("loss" | "dup" | "reorder" | "corrupt" | "rnr" | "qp-error") "=" PROBABILITY
//            | "delay=" TIME ["±" TIME] | "rate=" BITS | "partition=" TIME ".." [TIME]
//
// A PROBABILITY is 1%, 0.01 or 1e-2. A TIME has a unit: ns, us, ms or s. BITS are bits in a second,
// with K, M or G for powers of 1000. "+-" may stand for "±".
//
// Threads: pure functions and values.
// Errors: a Mistake, which quotes the word that is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace verbena::faults {

// Times in nanoseconds since the NIC of the process has started. `end` is the first moment after
// the window.
struct Window {
	Nanoseconds begin = never, end = never;
	bool contains(Nanoseconds when) const { return when >= begin && when < end; }
};

// Each of the first six is the probability, from 0 to 1, that one packet meets the fault.
struct Faults {
	double loss = 0;
	double duplicate = 0;
	double reorder = 0;  // the packet is held back, so that later ones overtake it
	double corrupt = 0;  // one to three bits are flipped
	double not_ready = 0;  // a message that needs a receive is answered by an RNR NAK
	double qp_error = 0;  // the queue pair that sends the packet goes to the error state
	Nanoseconds delay = 0, jitter = 0;  // each packet takes from delay - jitter to delay + jitter
	std::uint64_t bits_per_second = 0;  // 0: no limit
	Window partition;  // every packet is lost
};

// The faults of some packets. A filter that is not set admits all.
struct Clause {
	std::optional<std::array<std::uint8_t, 16>> peer;  // GID of the other end
	std::uint32_t queue_pair = 0;  // the number in the order of creation, from 1; 0: all
	Faults faults;
};

struct Spec {
	std::optional<std::uint64_t> seed;
	std::vector<Clause> clauses;

	// The faults of a packet between a queue pair of this process and a peer: those of the last
	// clause that admits both. Null: there is none.
	const Faults* find(const std::array<std::uint8_t, 16>& peer, std::uint32_t queue_pair) const;
};

struct Mistake {
	std::string word;  // as the user wrote it
	std::string reason;  // the rest of the sentence: "is no number"
	bool unknown = false;  // the name before "=" is none of the words
};

std::expected<Spec, Mistake> parse(std::string_view text);

// The names that may stand before "=".
std::span<const std::string_view> words();

}  // namespace verbena::faults
