// SPDX-License-Identifier: Apache-2.0
// States of a queue pair (IBA 10.3.1), and the attributes that each transition requires and allows
// (IBA 11.2.4.2).
//
// The values are those of `enum ibv_qp_state`, `enum ibv_qp_type` and `enum ibv_qp_attr_mask`.
#pragma once

#include <cstdint>
#include <optional>

namespace verbena::transport {

enum class QpState : std::uint8_t { reset = 0, init = 1, rtr = 2, rts = 3, sqd = 4, sqe = 5, error = 6 };
enum class QpType : std::uint8_t { rc = 2, uc = 3, ud = 4 };

enum QpAttributeMask : std::uint32_t {
	qp_state = 1 << 0,
	qp_current_state = 1 << 1,
	qp_sqd_notify = 1 << 2,
	qp_access_flags = 1 << 3,
	qp_pkey_index = 1 << 4,
	qp_port = 1 << 5,
	qp_qkey = 1 << 6,
	qp_av = 1 << 7,
	qp_path_mtu = 1 << 8,
	qp_timeout = 1 << 9,
	qp_retry_count = 1 << 10,
	qp_rnr_retry = 1 << 11,
	qp_rq_psn = 1 << 12,
	qp_max_rd_atomic = 1 << 13,
	qp_alternate_path = 1 << 14,
	qp_min_rnr_timer = 1 << 15,
	qp_sq_psn = 1 << 16,
	qp_max_dest_rd_atomic = 1 << 17,
	qp_path_migration_state = 1 << 18,
	qp_capabilities = 1 << 19,
	qp_destination_qpn = 1 << 20,
	qp_rate_limit = 1 << 25,
};

// The attributes that a transition needs, and those that it allows besides.
struct TransitionRule {
	std::uint32_t required, optional;
};
// Nothing if there is no such transition.
std::optional<TransitionRule> transition_rule(QpType type, QpState from, QpState to);

// Whether a QP of this type may go from `from` to `to` with exactly these attributes. The bits
// qp_state and qp_current_state are ignored.
bool modify_allowed(QpType type, QpState from, QpState to, std::uint32_t mask);

}  // namespace verbena::transport
