// SPDX-License-Identifier: Apache-2.0
// The parts of messages between client and server (protocol.h), read and checked: the other process
// is untrusted.
//
// Threads: pure functions.
// Errors: PeerLost for a message without a field that it must have; Failure for a cell that is
//   refused.
#pragma once

#include <functional>
#include <vector>

#include "bench/rcud/protocol.h"

namespace verbena::rcud {

// Refuses a cell of an untrusted client whose numbers contradict each other or need too much
// memory.
void check_request(const Cell& cell, const Shape& shape);

// The numbers of many queue pairs, in as many messages as they need.
void send_qpns(bench::Control& control, const std::vector<std::uint32_t>& qpns);
// Takes messages from `next` until it has `count` numbers.
std::vector<std::uint32_t> receive_qpns(std::size_t count, const std::function<bench::Message()>& next);

}  // namespace verbena::rcud
