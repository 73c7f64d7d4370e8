// The simulator's only source of chance. Each part of a run draws from a generator of its own, which fork() gives it,
// so that a run is its seed.
#pragma once

#include "base/random.h"

namespace verbena::sim {

class Random : public verbena::Random {
public:
	using verbena::Random::Random;

	std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
	Random fork() { return Random((*this)()); }
};

}  // namespace verbena::sim
