// SPDX-License-Identifier: Apache-2.0
// When a sweep writes its rows while it measures: about once a second, so that a killed sweep loses
// little. A large table takes long to judge and to write, so the writes take at most a twentieth of
// the time.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace verbena::bench {

class WritePace {
public:
	static constexpr Nanoseconds between = 1'000'000'000;
	static constexpr Nanoseconds part = 20;  // one in this many nanoseconds is for writing

	explicit WritePace(Nanoseconds now) : next_(now + between) {}

	bool is_due(Nanoseconds now) const { return now >= next_; }
	// A write lasted from `began` to `ended`.
	void wrote(Nanoseconds began, Nanoseconds ended) {
		next_ = ended + std::max(between, (ended - began) * (part - 1));
	}

private:
	Nanoseconds next_;
};

}  // namespace verbena::bench
