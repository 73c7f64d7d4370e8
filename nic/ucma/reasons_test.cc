// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <string>

#include "nic/cm/message.h"

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

TEST(Reasons, NameTheRoomForPrivateDataInEachMessage) {
	const auto room = []<std::size_t N>(cm::PrivateData<N>) { return std::to_string(N); };
	const char* const connect = reason_of(RDMA_USER_CM_CMD_CONNECT, EINVAL);
	EXPECT_THAT(connect, HasSubstr("above " + room(cm::Req{}.data)));
	EXPECT_THAT(connect, HasSubstr("datagrams: " + room(cm::SidrReq{}.data)));
	const char* const accept = reason_of(RDMA_USER_CM_CMD_ACCEPT, EINVAL);
	EXPECT_THAT(accept, HasSubstr("above " + room(cm::Rep{}.data)));
	EXPECT_THAT(accept, HasSubstr("datagrams: " + room(cm::SidrRep{}.data)));
	const char* const reject = reason_of(RDMA_USER_CM_CMD_REJECT, EINVAL);
	EXPECT_THAT(reject, HasSubstr("above " + room(cm::Rej{}.data)));
	EXPECT_THAT(reject, HasSubstr("datagrams: " + room(cm::SidrRep{}.data)));
}

TEST(Reasons, AreGeneralOtherwise) {
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, ENOENT), HasSubstr("no such id"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, EMFILE), HasSubstr("no descriptor left"));
	EXPECT_THAT(reason_of(RDMA_USER_CM_CMD_MIGRATE_ID, EPERM), HasSubstr("Operation not permitted"));
}

}  // namespace
}  // namespace verbena::ucma
