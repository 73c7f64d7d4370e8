// SPDX-License-Identifier: Apache-2.0
// Says why ibv_modify_qp() refuses a transition (IBA 11.2.4.2), for the log.
//
// Threads: any; pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "nic/transport/qp_state.h"

namespace verbena::verbs {

// "INIT to RTR needs IBV_QP_DEST_QPN", "RTR to RTS does not allow IBV_QP_PORT", or "RESET to RTS is
// no transition of an RC queue pair".
std::string modify_reason(transport::QpType type, transport::QpState from, transport::QpState to, std::uint32_t mask);

}  // namespace verbena::verbs
