// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/unsupported_ops.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbena::verbs {
namespace {

// The inline functions of verbs.h on a context that supports nothing: each must return.
struct UnsupportedOps : testing::Test {
	UnsupportedOps() {
		fill_unsupported(&extended);
		extended.sz = sizeof extended;
		context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	}

	verbs_context extended{};
	ibv_context* context = &extended.context;
	ibv_pd pd{.context = context};
	ibv_cq cq{.context = context};
	ibv_qp qp{.context = context};
	ibv_srq srq{.context = context};
	ibv_mw mw{.context = context, .pd = &pd, .rkey = 0, .handle = 0, .type = IBV_MW_TYPE_1};
	ibv_xrcd xrcd{.context = context};
	ibv_td td{.context = context};
	ibv_dm dm{.context = context};
	ibv_counters counters{.context = context};
};

TEST_F(UnsupportedOps, PostingGivesTheRequestBackAsBad) {
	ibv_send_wr send{};
	ibv_send_wr* bad_send = nullptr;
	EXPECT_EQ(ibv_post_send(&qp, &send, &bad_send), EOPNOTSUPP);
	EXPECT_EQ(bad_send, &send);

	ibv_recv_wr receive{};
	ibv_recv_wr* bad_receive = nullptr;
	EXPECT_EQ(ibv_post_recv(&qp, &receive, &bad_receive), EOPNOTSUPP);
	EXPECT_EQ(bad_receive, &receive);

	bad_receive = nullptr;
	EXPECT_EQ(ibv_post_srq_recv(&srq, &receive, &bad_receive), EOPNOTSUPP);
	EXPECT_EQ(bad_receive, &receive);

	ibv_ops_wr operation{};
	ibv_ops_wr* bad_operation = nullptr;
	EXPECT_EQ(ibv_post_srq_ops(&srq, &operation, &bad_operation), EOPNOTSUPP);
	EXPECT_EQ(bad_operation, &operation);
}

TEST_F(UnsupportedOps, PollingIsAnErrorAndNotANumberOfCompletions) {
	ibv_wc wc;
	errno = 0;
	EXPECT_LT(ibv_poll_cq(&cq, 1, &wc), 0);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_req_notify_cq(&cq, 0), EOPNOTSUPP);
}

TEST_F(UnsupportedOps, OperationsThatVerbsHCallsUntestedFail) {
	ibv_mw_bind bind{};
	EXPECT_EQ(ibv_bind_mw(&qp, &mw, &bind), EOPNOTSUPP);
	EXPECT_EQ(ibv_dealloc_mw(&mw), EOPNOTSUPP);
	EXPECT_EQ(ibv_close_xrcd(&xrcd), EOPNOTSUPP);
}

TEST_F(UnsupportedOps, CreatingUnsupportedObjectsReturnsNullAndSetsErrno) {
	const auto is_refused = [](auto create) {
		errno = 0;
		return create() == nullptr && errno == EOPNOTSUPP;
	};
	ibv_alloc_dm_attr dm_attributes{};
	ibv_td_init_attr td_attributes{};
	ibv_xrcd_init_attr xrcd_attributes{};
	ibv_parent_domain_init_attr domain_attributes{};
	ibv_cq_init_attr_ex cq_attributes{};
	ibv_qp_open_attr open_attributes{};
	ibv_wq_init_attr wq_attributes{};
	ibv_rwq_ind_table_init_attr table_attributes{};
	ibv_counters_init_attr counters_attributes{};
	ibv_flow_attr flow_attributes{};
	ibv_flow_action_esp_attr esp_attributes{};
	EXPECT_TRUE(is_refused([&] { return ibv_alloc_mw(&pd, IBV_MW_TYPE_2); }));
	EXPECT_TRUE(is_refused([&] { return ibv_alloc_dm(context, &dm_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_reg_dm_mr(&pd, &dm, 0, 1, 0); }));
	EXPECT_TRUE(is_refused([&] { return ibv_alloc_null_mr(&pd); }));
	EXPECT_TRUE(is_refused([&] { return ibv_alloc_td(context, &td_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_alloc_parent_domain(context, &domain_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_open_xrcd(context, &xrcd_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_cq_ex(context, &cq_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_open_qp(context, &open_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_wq(context, &wq_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_rwq_ind_table(context, &table_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_counters(context, &counters_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_flow(&qp, &flow_attributes); }));
	EXPECT_TRUE(is_refused([&] { return ibv_create_flow_action_esp(context, &esp_attributes); }));
}

TEST_F(UnsupportedOps, OldFormsOfTheQueriesFail) {
	EXPECT_EQ(context->ops._compat_query_device(context, nullptr), EOPNOTSUPP);
	EXPECT_EQ(context->ops._compat_query_port(context, 1, nullptr), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::verbs
