// SPDX-License-Identifier: Apache-2.0
// A histogram of non-negative integers, such as latencies in nanoseconds, with a bounded relative
// error, in the manner of HdrHistogram.
//
// Each value below 128 has a bucket of its own. From there up to 2^64 - 1, the range between two
// powers of two is cut into 64 equal buckets. So the value that quantile() returns is at most 1/64
// (1.6 %) above the recorded one.
//
// Threads: one at a time.
// Owns: 30 KiB of counters; record() allocates nothing and takes a few instructions.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace verbena {

class Histogram {
public:
	// A bucket's last value is at most this share above its first one.
	static constexpr double bucket_width = 1.0 / 64;

	void record(std::uint64_t value, std::uint64_t times = 1) {
		counts_[index_of(value)] += times;
		count_ += times;
		smallest_ = std::min(smallest_, value);
		largest_ = std::max(largest_, value);
	}

	void merge(const Histogram& other) {
		for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
		count_ += other.count_;
		smallest_ = std::min(smallest_, other.smallest_);
		largest_ = std::max(largest_, other.largest_);
	}

	std::uint64_t count() const { return count_; }
	// min() and max() are exact; both are 0 if nothing was recorded.
	std::uint64_t min() const { return count_ == 0 ? 0 : smallest_; }
	std::uint64_t max() const { return largest_; }

	// The smallest recorded value v such that at least `fraction` (0 to 1) of the recorded values
	// are at most v (nearest rank). The result is rounded up to the last value of the bucket of v,
	// but not above max(). It is 0 if nothing was recorded.
	std::uint64_t quantile(double fraction) const {
		if (count_ == 0) return 0;
		const auto wanted =
			static_cast<std::uint64_t>(std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_)));
		const std::uint64_t rank = std::clamp<std::uint64_t>(wanted, 1, count_);
		std::uint64_t seen = 0;
		for (std::size_t i = 0; i < counts_.size(); ++i) {
			seen += counts_[i];
			if (seen >= rank) return std::min(last_value_of(i), largest_);
		}
		return largest_;
	}

	// Calls visit(last, count) for each bucket that is not empty, in rising order: `count` values
	// were recorded that are at most `last`, and above the bucket before it.
	template <class Visit> void for_each(Visit&& visit) const {
		for (std::size_t i = 0; i < counts_.size(); ++i)
			if (counts_[i] > 0) visit(last_value_of(i), counts_[i]);
	}

	// Sets min() and max() of a histogram that was made from what for_each() visited. False, and
	// nothing is changed, unless they lie in its first and its last bucket.
	bool narrow(std::uint64_t smallest, std::uint64_t largest) {
		if (count_ == 0) return smallest == 0 && largest == 0;
		if (smallest > largest || index_of(smallest) != index_of(smallest_) || index_of(largest) != index_of(largest_))
			return false;
		smallest_ = smallest;
		largest_ = largest;
		return true;
	}

private:
	static constexpr unsigned precision_bits = 6;
	static constexpr std::size_t per_octave = std::size_t{1} << precision_bits;
	static_assert(bucket_width * per_octave == 1);

	static std::size_t index_of(std::uint64_t value) {
		const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - static_cast<int>(precision_bits + 1));
		return static_cast<std::size_t>(shift) * per_octave + (value >> shift);
	}

	static std::uint64_t last_value_of(std::size_t index) {
		if (index < 2 * per_octave) return index;
		const std::size_t shift = index / per_octave - 1;
		return ((std::uint64_t{index - shift * per_octave} + 1) << shift) - 1;
	}

	std::array<std::uint64_t, (64 - precision_bits + 1) * per_octave> counts_{};
	std::uint64_t count_ = 0;
	std::uint64_t smallest_ = UINT64_MAX;
	std::uint64_t largest_ = 0;
};

}  // namespace verbena
