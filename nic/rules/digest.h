// SPDX-License-Identifier: Apache-2.0
// A digest of the memory of a request, to see whether the memory has changed.
//
// Only the first and the last 32 KiB count: a change between them is missed. So is a change that
// leaves the same bytes.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "nic/queues/work_request.h"

namespace verbena::rules {

// Nothing if a page is missing.
std::optional<std::uint64_t> digest_of(std::span<const queues::Segment>);

}  // namespace verbena::rules
