// SPDX-License-Identifier: Apache-2.0
// The text of `verbena run --adversary`: how unkind the NIC is.
//
//     spec  = [SEED] {":" word}
//     word  = "tso" | "iba" | "loose" | "only=" KIND {"+" KIND}
//
// A SEED is a number below 2^64, decimal or 0x and hexadecimal. Examples: "", "7", "7:iba",
// "7:tso:only=placement+reads".
//
// Threads: pure functions and values.
// Errors: a Mistake, which quotes the word that is wrong.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace verbena::adversary {

// The promises on which an application relies (docs/memory-model.md).
enum class Model : std::uint8_t {
	tso,  // WRITEs of one queue pair become visible in order, as on the NICs of today
	iba,  // only what the InfiniBand specification promises: the receiver of a completion sees all
	// All that a program may ask for: relaxed ordering, so that either of two WRITEs may be the
	// last where they overlap; and out-of-order placement, so that a message may take any receive.
	loose,
};

// The kinds of unkindness, each of which can be left out.
enum class Kind : std::uint8_t {
	placement,
	gather,
	reads,
	atomics,
	completions,
	events,
	datagrams,
	connections,
	receives  // under `loose` only
};
inline constexpr unsigned kind_count = 9;

struct Spec {
	std::optional<std::uint64_t> seed;
	Model model = Model::tso;
	std::uint16_t kinds = (1u << kind_count) - 1;  // one bit for each Kind

	bool has(Kind kind) const { return kinds >> static_cast<unsigned>(kind) & 1; }
};

struct Mistake {
	std::string word;  // as the user wrote it
	std::string reason;  // the rest of the sentence: "is no seed"
};

std::expected<Spec, Mistake> parse(std::string_view text);

std::string_view name_of(Model);
std::string_view name_of(Kind);
// The text from which parse() makes the same values: "0x2a:tso". The seed must be set.
std::string text_of(const Spec&);

}  // namespace verbena::adversary
