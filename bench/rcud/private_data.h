// SPDX-License-Identifier: Apache-2.0
// The private data that the two ends of a measurement exchange in messages of rdma_cm: the REQ
// carries an Offer, the REP an Answer.
//
// Format: four letters, a version, then the fields, big-endian and without padding; rdma_cm fills
// the rest of the message with zeros. Both fit into the 56 bytes that a REQ leaves
// (rdma_connect(3)).
//
// Threads: values and pure functions.
// Errors: the peer is untrusted; the error says what is wrong with the data.
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

inline constexpr std::uint8_t private_data_version = 2;

// The sender's part: the cell (RC; the shape follows from it), the run, and the word for credits.
struct Offer {
	Cell cell;
	Run run;
	std::uint64_t credit_word = 0;  // address and rkey of the word that credits are written to
	std::uint32_t rkey = 0;
	bool operator==(const Offer&) const = default;
};

// The receiver's part: address and rkey of its ring of message slots.
struct Answer {
	std::uint64_t data = 0;
	std::uint32_t rkey = 0;
	bool operator==(const Answer&) const = default;
};

inline constexpr std::size_t offer_bytes = 4 + 1 + 1 + 1 + 1 + 4 + 4 + 2 + 8 + 8 + 8 + 4, answer_bytes = 4 + 1 + 8 + 4;

std::array<std::byte, offer_bytes> encode(const Offer& offer);
std::array<std::byte, answer_bytes> encode(const Answer& answer);

// Refused: data that is too short, of another program or version, or with a field out of range.
std::expected<Offer, std::string> decode_offer(std::span<const std::byte> data);
std::expected<Answer, std::string> decode_answer(std::span<const std::byte> data);

}  // namespace verbena::rcud
