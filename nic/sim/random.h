// SPDX-License-Identifier: Apache-2.0
// The simulator's only source of randomness. Each part of a run has its own generator, made by
// fork(), so that the seed determines the run.
#pragma once

#include "base/random.h"

namespace verbena::sim {

class Random : public verbena::Random {
public:
	using verbena::Random::Random;

	// Uniform in [least, most].
	std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
	Random fork() { return Random((*this)()); }
};

}  // namespace verbena::sim
