// SPDX-License-Identifier: Apache-2.0
// The server of a measurement, which has the receivers (protocol.h).
//
// Threads: one thread in each process.
// Lifetime: device, control connection and shared page must outlive the call.
#pragma once

#include "bench/far_end/control.h"
#include "bench/far_end/round_trip.h"
#include "lib/verbs/device.h"

namespace verbena::rcud {

// Serves one client until it disconnects, which is no error. Throws Failure if the client does not
// speak the protocol. `page` is null if the client is on another host.
void serve(lib::OpenDevice& device, bench::Control& control, bench::RoundTrip* page);

}  // namespace verbena::rcud
