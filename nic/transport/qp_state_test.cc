// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/qp_state.h"

#include <gtest/gtest.h>
#include <initializer_list>
#include <map>
#include <tuple>

namespace verbena::transport {
namespace {

constexpr QpType types[] = {QpType::rc, QpType::uc, QpType::ud};
constexpr QpState states[] = {
	QpState::reset, QpState::init, QpState::rtr, QpState::rts, QpState::sqd, QpState::sqe, QpState::error};

// The attributes that IBA 11.2.4.2 requires for each transition, written as the specification lists
// them.
std::uint32_t required(QpType type, QpState from, QpState to) {
	using enum QpState;
	const bool rc = type == QpType::rc, ud = type == QpType::ud;
	if (from == reset && to == init) return qp_pkey_index | qp_port | (ud ? qp_qkey : qp_access_flags);
	if (from == init && to == rtr) {
		if (ud) return 0;
		return qp_av | qp_path_mtu | qp_destination_qpn | qp_rq_psn |
			(rc ? qp_max_dest_rd_atomic | qp_min_rnr_timer : 0);
	}
	if (from == rtr && to == rts)
		return qp_sq_psn | (rc ? qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic : 0);
	return 0;
}

bool exists(QpType type, QpState from, QpState to) {
	using enum QpState;
	if (to == reset || to == error) return true;
	if (from == to) return from == init || from == rts || from == sqd;
	if (from == sqe && to == rts) return type != QpType::rc;
	return std::tuple(from, to) == std::tuple(reset, init) || std::tuple(from, to) == std::tuple(init, rtr) ||
		std::tuple(from, to) == std::tuple(rtr, rts) || std::tuple(from, to) == std::tuple(rts, sqd) ||
		std::tuple(from, to) == std::tuple(sqd, rts);
}

TEST(QpState, ExactlyTheTransitionsOfTheSpecificationExist) {
	for (const QpType type : types)
		for (const QpState from : states)
			for (const QpState to : states)
				EXPECT_EQ(modify_allowed(type, from, to, required(type, from, to)), exists(type, from, to))
					<< "type " << int(type) << " from " << int(from) << " to " << int(to);
}

TEST(QpState, EachRequiredAttributeIsRequired) {
	for (const QpType type : types)
		for (const QpState from : states)
			for (const QpState to : states) {
				const std::uint32_t needed = required(type, from, to);
				for (std::uint32_t bit = 1; bit <= needed; bit <<= 1) {
					if (!(needed & bit)) continue;
					EXPECT_FALSE(modify_allowed(type, from, to, needed & ~bit))
						<< "type " << int(type) << ": " << int(from) << " to " << int(to) << " without " << bit;
				}
			}
}

// IBA 11.2.4.2: the attributes that are optional for each transition.
TEST(QpState, OptionalAttributesAreThoseOfTheSpecification) {
	using enum QpState;
	constexpr std::uint32_t connected = qp_alternate_path | qp_access_flags;
	const std::map<std::tuple<QpType, QpState, QpState>, std::uint32_t> optional{
		{{QpType::rc, init, init}, qp_pkey_index | qp_port | qp_access_flags},
		{{QpType::uc, init, init}, qp_pkey_index | qp_port | qp_access_flags},
		{{QpType::ud, init, init}, qp_pkey_index | qp_port | qp_qkey},
		{{QpType::rc, init, rtr}, connected | qp_pkey_index},
		{{QpType::uc, init, rtr}, connected | qp_pkey_index},
		{{QpType::ud, init, rtr}, qp_pkey_index | qp_qkey},
		{{QpType::rc, rtr, rts}, connected | qp_min_rnr_timer | qp_path_migration_state},
		{{QpType::uc, rtr, rts}, connected | qp_path_migration_state},
		{{QpType::ud, rtr, rts}, qp_qkey | qp_rate_limit},
		{{QpType::rc, rts, rts}, connected | qp_min_rnr_timer | qp_path_migration_state},
		{{QpType::uc, rts, rts}, connected | qp_path_migration_state},
		{{QpType::ud, rts, rts}, qp_qkey | qp_rate_limit},
		{{QpType::rc, rts, sqd}, qp_sqd_notify},
		{{QpType::uc, rts, sqd}, qp_sqd_notify},
		{{QpType::ud, rts, sqd}, qp_sqd_notify},
		{{QpType::rc, sqd, rts}, connected | qp_min_rnr_timer | qp_path_migration_state},
		{{QpType::uc, sqd, rts}, connected | qp_path_migration_state},
		{{QpType::ud, sqd, rts}, qp_qkey},
		{{QpType::rc, sqd, sqd},
			connected | qp_port | qp_av | qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic |
				qp_max_dest_rd_atomic | qp_pkey_index | qp_min_rnr_timer | qp_path_migration_state},
		{{QpType::uc, sqd, sqd}, connected | qp_av | qp_pkey_index | qp_path_migration_state},
		{{QpType::ud, sqd, sqd}, qp_pkey_index | qp_qkey},
		{{QpType::uc, sqe, rts}, qp_access_flags},
		{{QpType::ud, sqe, rts}, qp_qkey},
	};
	for (const QpType type : types)
		for (const QpState from : states)
			for (const QpState to : states) {
				if (!exists(type, from, to)) continue;
				const std::uint32_t needed = required(type, from, to);
				const auto found = optional.find({type, from, to});
				const std::uint32_t allowed = found == optional.end() ? 0 : found->second;
				for (int n = 2; n <= 25; ++n) {
					const std::uint32_t bit = 1u << n;
					if (needed & bit) continue;
					EXPECT_EQ(modify_allowed(type, from, to, needed | bit), (allowed & bit) != 0)
						<< "type " << int(type) << ": " << int(from) << " to " << int(to) << " with bit " << n;
				}
			}
}

TEST(QpState, TheStateBitsThemselvesDoNotMatter) {
	EXPECT_TRUE(modify_allowed(QpType::rc, QpState::rts, QpState::error, qp_state | qp_current_state));
	EXPECT_TRUE(modify_allowed(QpType::rc, QpState::rts, QpState::sqd, qp_state));
}

}  // namespace
}  // namespace verbena::transport
