// What the two ends of a measurement tell each other in the messages of rdma_cm: the REQ carries an Offer, the REP an
// Answer.
//
// Encoded big-endian and without padding, behind four letters and a version; what the message is longer than that is
// zeros. Both fit into 56 bytes, the room that a REQ leaves. Values; everything decoded is from outside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "bench/rcud/cell.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

inline constexpr std::uint8_t private_data_version = 1;

// The sending side: the cell (RC; the shape follows from it), the run, and where credits go.
struct Offer {
	Cell cell;
	Run run;
	std::uint64_t credit_word = 0;
	std::uint32_t rkey = 0;
	bool operator==(const Offer&) const = default;
};

// The receiving side: its ring of message slots.
struct Answer {
	std::uint64_t data = 0;
	std::uint32_t rkey = 0;
	bool operator==(const Answer&) const = default;
};

inline constexpr std::size_t offer_bytes = 4 + 1 + 1 + 1 + 1 + 4 + 4 + 2 + 8 + 8 + 4, answer_bytes = 4 + 1 + 8 + 4;

std::array<std::byte, offer_bytes> encode(const Offer& offer);
std::array<std::byte, answer_bytes> encode(const Answer& answer);

// The error says what is wrong with it: too short, of another program or version, or a field that cannot be.
std::expected<Offer, std::string> decode_offer(std::span<const std::byte> data);
std::expected<Answer, std::string> decode_answer(std::span<const std::byte> data);

}  // namespace verbena::rcud
