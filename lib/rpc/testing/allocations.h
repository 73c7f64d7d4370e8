// SPDX-License-Identifier: Apache-2.0
// Counts a program's heap allocations, in programs that are linked with allocations.cc.
//
// Threads: thread-safe.
#pragma once

#include <cstdint>

namespace rpc_test {

std::uint64_t count_of_allocations();

}  // namespace rpc_test
