// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/qp_state.h"

namespace verbena::transport {
namespace {

// The table of IBA 11.2.4.2 without the transitions to reset and error.
struct Transition {
	QpState from, to;
	std::uint32_t required[3];  // for RC, UC, UD
	std::uint32_t optional[3];
};

constexpr std::uint32_t rtr_connected = qp_av | qp_path_mtu | qp_destination_qpn | qp_rq_psn;

constexpr Transition transitions[] = {
	{QpState::reset, QpState::init,
		{qp_pkey_index | qp_port | qp_access_flags, qp_pkey_index | qp_port | qp_access_flags,
			qp_pkey_index | qp_port | qp_qkey},
		{0, 0, 0}},
	{QpState::init, QpState::init, {0, 0, 0},
		{qp_pkey_index | qp_port | qp_access_flags, qp_pkey_index | qp_port | qp_access_flags,
			qp_pkey_index | qp_port | qp_qkey}},
	{QpState::init, QpState::rtr, {rtr_connected | qp_max_dest_rd_atomic | qp_min_rnr_timer, rtr_connected, 0},
		{qp_alternate_path | qp_access_flags | qp_pkey_index, qp_alternate_path | qp_access_flags | qp_pkey_index,
			qp_pkey_index | qp_qkey}},
	{QpState::rtr, QpState::rts,
		{qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic | qp_sq_psn, qp_sq_psn, qp_sq_psn},
		{qp_alternate_path | qp_access_flags | qp_min_rnr_timer | qp_path_migration_state,
			qp_alternate_path | qp_access_flags | qp_path_migration_state, qp_qkey | qp_rate_limit}},
	{QpState::rts, QpState::rts, {0, 0, 0},
		{qp_access_flags | qp_min_rnr_timer | qp_alternate_path | qp_path_migration_state,
			qp_access_flags | qp_alternate_path | qp_path_migration_state, qp_qkey | qp_rate_limit}},
	{QpState::rts, QpState::sqd, {0, 0, 0}, {qp_sqd_notify, qp_sqd_notify, qp_sqd_notify}},
	{QpState::sqd, QpState::rts, {0, 0, 0},
		{qp_alternate_path | qp_access_flags | qp_min_rnr_timer | qp_path_migration_state,
			qp_alternate_path | qp_access_flags | qp_path_migration_state, qp_qkey}},
	{QpState::sqd, QpState::sqd, {0, 0, 0},
		{qp_port | qp_av | qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic | qp_max_dest_rd_atomic |
				qp_alternate_path | qp_access_flags | qp_pkey_index | qp_min_rnr_timer | qp_path_migration_state,
			qp_av | qp_alternate_path | qp_access_flags | qp_pkey_index | qp_path_migration_state,
			qp_pkey_index | qp_qkey}},
	{QpState::sqe, QpState::rts, {0, 0, 0}, {0, qp_access_flags, qp_qkey}},
};

constexpr int column(QpType type) { return static_cast<int>(type) - static_cast<int>(QpType::rc); }

}  // namespace

std::optional<TransitionRule> transition_rule(QpType type, QpState from, QpState to) {
	// From every state.
	if (to == QpState::reset || to == QpState::error) return TransitionRule{0, 0};
	// RC has no SQE state.
	if (to == QpState::rts && from == QpState::sqe && type == QpType::rc) return std::nullopt;
	for (const Transition& t : transitions)
		if (t.from == from && t.to == to) return TransitionRule{t.required[column(type)], t.optional[column(type)]};
	return std::nullopt;
}

bool modify_allowed(QpType type, QpState from, QpState to, std::uint32_t mask) {
	mask &= ~(qp_state | qp_current_state);
	const auto rule = transition_rule(type, from, to);
	return rule && (mask & rule->required) == rule->required && (mask & ~(rule->required | rule->optional)) == 0;
}

}  // namespace verbena::transport
