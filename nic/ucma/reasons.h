// SPDX-License-Identifier: Apache-2.0
// Words for the errno values of the rdma_cm commands, for the log. The kernel's rdma_cm gives one
// errno for many mistakes; a reason names the likely ones.
//
// Threads: any; pure functions.
#pragma once

#include <cstdint>

namespace verbena::ucma {

// The function of librdmacm that writes the command: "rdma_bind_addr".
const char* function_of(std::uint32_t command);

// The reason why a command fails with this errno value.
const char* reason_of(std::uint32_t command, int error);

}  // namespace verbena::ucma
