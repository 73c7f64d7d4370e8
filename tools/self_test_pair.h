// SPDX-License-Identifier: Apache-2.0
// The part of `verbena self-test` that runs the NIC: messages between two processes, checked and
// then measured.
//
// Threads: one thread in each process.
// Errors: each mistake of the NIC or of the machine is a finding; none is thrown.
#pragma once

#include "tools/stage.h"

namespace verbena::tools {

// Takes what was found or measured, as soon as it is known: an object with "finding" (finding.h) or
// with "speed": {where, transport, op, bytes, window, us, us_p99, mops, gib_s}.
using Report = Show;

// Until when a stage may begin a measurement; without a time it only checks.
using Measuring = std::optional<std::chrono::steady_clock::time_point>;

// Each is for a process of its own, which has opened no device and ends afterwards.
void try_this_host(const Report& report, Measuring until);
// Two hosts are two network namespaces; where they cannot be made, one note says so.
void try_two_hosts(const Report& report, Measuring until);

// The process that the two start: "self-test --serve-inherited". Returns the exit code.
// `core` is the processor to run on; none if it is negative.
int serve_self_test(bool on_this_host, int core);

}  // namespace verbena::tools
