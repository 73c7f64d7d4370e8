// Standstill: for how long a peer has sent nothing of what it owes, looked at from time to time.
#pragma once

#include <cstddef>
#include <utility>

#include "base/time.h"

namespace verbena::channel {

class Standstill {
public:
	// `left` is what is still to come, 0 when nothing is awaited. How long that has been the same, as far as was
	// looked.
	Nanoseconds look(std::size_t left, Nanoseconds now) {
		if (left != std::exchange(left_, left) || left == 0) moved_at_ = now;
		return now - moved_at_;
	}

private:
	std::size_t left_ = 0;
	Nanoseconds moved_at_ = 0;
};

}  // namespace verbena::channel
