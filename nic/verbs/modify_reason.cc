// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/modify_reason.h"

#include <utility>

namespace verbena::verbs {
namespace {

using transport::QpState;
using transport::QpType;

constexpr std::pair<std::uint32_t, const char*> attribute_names[] = {
	{transport::qp_state, "IBV_QP_STATE"},
	{transport::qp_current_state, "IBV_QP_CUR_STATE"},
	{transport::qp_sqd_notify, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
	{transport::qp_access_flags, "IBV_QP_ACCESS_FLAGS"},
	{transport::qp_pkey_index, "IBV_QP_PKEY_INDEX"},
	{transport::qp_port, "IBV_QP_PORT"},
	{transport::qp_qkey, "IBV_QP_QKEY"},
	{transport::qp_av, "IBV_QP_AV"},
	{transport::qp_path_mtu, "IBV_QP_PATH_MTU"},
	{transport::qp_timeout, "IBV_QP_TIMEOUT"},
	{transport::qp_retry_count, "IBV_QP_RETRY_CNT"},
	{transport::qp_rnr_retry, "IBV_QP_RNR_RETRY"},
	{transport::qp_rq_psn, "IBV_QP_RQ_PSN"},
	{transport::qp_max_rd_atomic, "IBV_QP_MAX_QP_RD_ATOMIC"},
	{transport::qp_alternate_path, "IBV_QP_ALT_PATH"},
	{transport::qp_min_rnr_timer, "IBV_QP_MIN_RNR_TIMER"},
	{transport::qp_sq_psn, "IBV_QP_SQ_PSN"},
	{transport::qp_max_dest_rd_atomic, "IBV_QP_MAX_DEST_RD_ATOMIC"},
	{transport::qp_path_migration_state, "IBV_QP_PATH_MIG_STATE"},
	{transport::qp_capabilities, "IBV_QP_CAP"},
	{transport::qp_destination_qpn, "IBV_QP_DEST_QPN"},
	{transport::qp_rate_limit, "IBV_QP_RATE_LIMIT"},
};

std::string names_of(std::uint32_t mask) {
	std::string names;
	for (const auto& [bit, name] : attribute_names) {
		if (!(mask & bit)) continue;
		names += (names.empty() ? "" : " | ") + std::string(name);
		mask &= ~bit;
	}
	if (mask != 0) names += (names.empty() ? "bits " : " and bits ") + std::to_string(mask);
	return names;
}

const char* name_of(QpState state) {
	constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	return names[static_cast<std::size_t>(state)];
}

const char* name_of(QpType type) { return type == QpType::rc ? "an RC" : type == QpType::uc ? "a UC" : "a UD"; }

}  // namespace

std::string modify_reason(QpType type, QpState from, QpState to, std::uint32_t mask) {
	const std::string transition = std::string(name_of(from)) + " to " + name_of(to);
	const auto rule = transport::transition_rule(type, from, to);
	if (!rule) return transition + " is no transition of " + name_of(type) + " queue pair";
	mask &= ~std::uint32_t{transport::qp_state | transport::qp_current_state};
	if (const std::uint32_t missing = rule->required & ~mask; missing != 0)
		return transition + " needs " + names_of(missing);
	return transition + " does not allow " + names_of(mask & ~(rule->required | rule->optional));
}

}  // namespace verbena::verbs
