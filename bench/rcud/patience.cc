// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/patience.h"

#include <fmt/format.h>

#include "bench/rcud/cell.h"

namespace verbena::rcud {

void complain_of_clock(std::uint64_t before, std::uint64_t now) {
	throw Failure(fmt::format("the clock went backwards by {} ns", before - now));
}

}  // namespace verbena::rcud
