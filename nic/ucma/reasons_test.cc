// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>

namespace verbena::ucma {
namespace {

using testing::HasSubstr;

TEST(Reasons, EachCommandHasTheNameOfItsFunction) {
	for (std::uint32_t command = 0; command <= RDMA_USER_CM_CMD_JOIN_MCAST; ++command)
		EXPECT_THAT(function_of(command), testing::Not(HasSubstr("unknown"))) << command;
	EXPECT_THAT(function_of(99), HasSubstr("unknown"));
}

TEST(Reasons, AreSpecificWhereACommandHasOneOfItsOwn) {
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_BIND, EADDRINUSE), HasSubstr("port"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_BIND_IP, EADDRINUSE), HasSubstr("port"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_CONNECT, EINVAL), HasSubstr("ROUTE_RESOLVED"));
}

TEST(Reasons, AreGeneralOtherwise) {
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, ENOENT), HasSubstr("no such id"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, EMFILE), HasSubstr("no descriptor left"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, EPERM), HasSubstr("Operation not permitted"));
}

}  // namespace
}  // namespace verbena::ucma
