// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/modify_reason.h"

#include <gtest/gtest.h>

namespace verbena::verbs {
namespace {

using transport::QpState;
using transport::QpType;

TEST(ModifyReason, NamesTheMissingAttributes) {
	constexpr std::uint32_t given = transport::qp_state | transport::qp_av | transport::qp_path_mtu |
		transport::qp_rq_psn | transport::qp_max_dest_rd_atomic | transport::qp_min_rnr_timer;
	EXPECT_EQ(modify_reason(QpType::rc, QpState::init, QpState::rtr, given), "INIT to RTR needs IBV_QP_DEST_QPN");
	EXPECT_EQ(modify_reason(QpType::ud, QpState::reset, QpState::init, transport::qp_state | transport::qp_port),
		"RESET to INIT needs IBV_QP_PKEY_INDEX | IBV_QP_QKEY");
}

TEST(ModifyReason, NamesTheAttributesThatAreNotAllowed) {
	EXPECT_EQ(modify_reason(QpType::uc, QpState::rtr, QpState::rts,
				  transport::qp_state | transport::qp_sq_psn | transport::qp_timeout),
		"RTR to RTS does not allow IBV_QP_TIMEOUT");
	EXPECT_EQ(modify_reason(QpType::rc, QpState::rts, QpState::error, transport::qp_state | transport::qp_qkey),
		"RTS to ERR does not allow IBV_QP_QKEY");
	EXPECT_EQ(
		modify_reason(QpType::ud, QpState::rts, QpState::rts, 1 << 30), "RTS to RTS does not allow bits 1073741824");
}

TEST(ModifyReason, NamesATransitionThatDoesNotExist) {
	EXPECT_EQ(modify_reason(QpType::rc, QpState::reset, QpState::rts, transport::qp_state),
		"RESET to RTS is no transition of an RC queue pair");
	EXPECT_EQ(modify_reason(QpType::rc, QpState::sqe, QpState::rts, transport::qp_state),
		"SQE to RTS is no transition of an RC queue pair");
}

}  // namespace
}  // namespace verbena::verbs
