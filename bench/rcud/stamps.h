// SPDX-License-Identifier: Apache-2.0
// Stamps, the numbers that every message carries, and the receiver's account of them: which
// messages arrived once, twice, late, damaged or never.
//
// A stamp is 8 bytes in host byte order: 16 bits for the run, 48 bits for the sequence number,
// which begins at 0. It is at the beginning of a message and, from 16 bytes on, also at its end, so
// that a message with a missing end is noticed; with a seed all bytes between are checked too
// (pattern.h). Messages below 8 bytes can only be counted, or compared in the order of arrival.
//
// Threads: one thread for each Account.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bench/rcud/pattern.h"

namespace verbena::rcud {

inline constexpr std::uint64_t sequence_mask = (std::uint64_t{1} << 48) - 1;

inline std::uint64_t make_stamp(std::uint16_t run, std::uint64_t sequence) {
	return std::uint64_t{run} << 48 | sequence;
}
inline std::uint16_t run_of(std::uint64_t stamp) { return static_cast<std::uint16_t>(stamp >> 48); }
inline std::uint64_t sequence_of(std::uint64_t stamp) { return stamp & sequence_mask; }

inline void write_stamps(std::byte* message, std::size_t bytes, std::uint64_t stamp) {
	if (bytes >= 8) std::memcpy(message, &stamp, sizeof stamp);
	if (bytes >= 16) std::memcpy(message + bytes - 8, &stamp, sizeof stamp);
}

inline bool stamps_agree(const std::byte* message, std::size_t bytes) {
	return bytes < 16 || load_stamp(message) == load_stamp(message + bytes - 8);
}

// The receiver's account of one run, in fixed memory: a message that arrives more than `horizon`
// places late is not recognised and counts as stale.
class Account {
public:
	static constexpr std::uint64_t horizon = std::uint64_t{1} << 17;

	// `total` is the number of messages of the run, if it is known. They are checked against the
	// pattern.
	void begin(std::uint16_t run, std::uint64_t total = sequence_mask + 1, Pattern pattern = Pattern()) {
		*this = Account(run, total, pattern);
	}

	// Counts a message of `bytes` bytes.
	void accept(const std::byte* message, std::size_t bytes) {
		if (bytes < 8) return accept_unnumbered(message, bytes);
		const std::uint64_t stamp = load_stamp(message);
		if (!pattern_.agrees(message, bytes, stamp)) [[unlikely]] {
			// A run without a pattern may have been before this one.
			++(run_of(stamp) != run_ && stamps_agree(message, bytes) ? stale : corrupt);
		} else if (run_of(stamp) != run_) [[unlikely]] {
			++stale;
		} else if (sequence_of(stamp) >= total_) [[unlikely]] {
			++corrupt;
		} else {
			accept_sequence(sequence_of(stamp));
		}
	}

	// Counts a message of this run by its sequence number.
	void accept_sequence(std::uint64_t sequence) {
		if (sequence >= next_) {
			if (sequence > next_) [[unlikely]]
				forget(next_, sequence);
			mark(sequence);
			next_ = sequence + 1;
			++delivered;
		} else if (sequence + horizon < next_) {
			++stale;
		} else if (marked(sequence)) {
			++duplicated;
		} else {
			mark(sequence);
			++reordered;
			++delivered;
		}
	}

	// One past the highest sequence number that arrived.
	std::uint64_t next() const { return next_; }

	std::uint64_t delivered = 0;   // different messages
	std::uint64_t duplicated = 0;  // arrived again
	std::uint64_t reordered = 0;   // arrived after a later one
	std::uint64_t corrupt = 0;     // not what was sent, or a number that the run does not have
	std::uint64_t stale = 0;       // belong to another run, or are beyond the horizon

	explicit Account(std::uint16_t run = 0, std::uint64_t total = sequence_mask + 1, Pattern pattern = Pattern())
		: run_(run), total_(total), pattern_(pattern) {}

private:
	// Without a stamp the number is that of the place in the order of arrival.
	void accept_unnumbered(const std::byte* message, std::size_t bytes) {
		const bool whole = pattern_.agrees(message, bytes, make_stamp(run_, next_));
		++(next_ >= total_ ? duplicated : whole ? delivered : corrupt);
		++next_;
	}

	// The last `horizon` sequence numbers, one bit each.
	void mark(std::uint64_t sequence) { seen_[sequence % horizon / 64] |= std::uint64_t{1} << sequence % 64; }
	bool marked(std::uint64_t sequence) const { return (seen_[sequence % horizon / 64] >> sequence % 64 & 1) != 0; }
	void forget(std::uint64_t from, std::uint64_t to) {
		if (to - from >= horizon) {
			seen_.fill(0);
			return;
		}
		for (; from < to; ++from) seen_[from % horizon / 64] &= ~(std::uint64_t{1} << from % 64);
	}

	std::uint16_t run_;
	std::uint64_t total_;
	Pattern pattern_;
	std::uint64_t next_ = 0;
	std::array<std::uint64_t, horizon / 64> seen_{};
};

}  // namespace verbena::rcud
