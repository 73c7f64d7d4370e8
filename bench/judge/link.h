// SPDX-License-Identifier: Apache-2.0
// The link of the measuring device, which no payload can exceed.
//
// Threads: pure functions.
#pragma once

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

// The rate in Gb/s of the environment's `link`, such as "Ethernet, 100 Gb/s, to host2"; 0 if the
// text has no rate, or if `kind` is not hardware.
double link_gigabits(const Environment& environment);

// Payload of more bits than the link carries is invalid.
void examine_link(const Environment& environment, double payload_gigabits, Findings& findings);

}  // namespace verbena::bench
