// SPDX-License-Identifier: Apache-2.0
// The environment of the RDMA device that calls over RDMA use.
//
// A child process opens the device and ends, because opening one starts threads, and the process
// that measures must have only one (cell.h).
//
// Threads: describe_device() forks, so the calling process must have one thread.
#pragma once

#include "bench/table/row.h"

namespace verbena::rpcbench {

// device, kind and link; with `registration` also what it costs to register memory and to copy as
// many bytes. Empty if there is no device.
bench::Environment describe_device(bool registration);

}  // namespace verbena::rpcbench
