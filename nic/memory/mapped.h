// SPDX-License-Identifier: Apache-2.0
// Whether memory is mapped, by a system call that touches no page of it.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>

namespace verbena::memory {

// The address of the first page of [begin, end) that is not mapped; nothing if all are, or if the
// system call is not permitted. Changes errno. Costs one system call, and some more if the answer
// is an address.
std::optional<std::uint64_t> first_unmapped(std::uint64_t begin, std::uint64_t end);

}  // namespace verbena::memory
