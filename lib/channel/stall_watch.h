// SPDX-License-Identifier: Apache-2.0
// The time since a peer last made progress with what is expected of it, as seen by occasional
// looks.
#pragma once

#include <cstddef>
#include <utility>

#include "base/time.h"

namespace verbena::channel {

class StallWatch {
public:
	// `left` is the amount still missing, 0 when nothing is awaited. Returns for how long it has
	// not changed, or 0 if it has changed since the last look.
	Nanoseconds look(std::size_t left, Nanoseconds now) {
		if (left != std::exchange(left_, left) || left == 0) moved_at_ = now;
		return now - moved_at_;
	}

private:
	std::size_t left_ = 0;
	Nanoseconds moved_at_ = 0;
};

}  // namespace verbena::channel
