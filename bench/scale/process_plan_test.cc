// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/process_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

TEST(PlanProcesses, TenThousandClientsAProcess) {
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 10}, 0, true, 20'000), 1u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 0, true, 20'000), 2u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 5, true, 20'000), 5u);
	EXPECT_EQ(plan_processes({.transport = Transport::rdma, .clients = 3}, 5, true, 20'000), 3u);
}

TEST(PlanProcesses, LogicalClientsNeedNoDescriptorsButAQueuePairInEachProcess) {
	EXPECT_EQ(plan_processes({.transport = Transport::tcp, .clients = 100'000, .queue_pairs = 64}, 0, true, 1000), 2u);
	EXPECT_EQ(plan_processes({.clients = 100'000, .queue_pairs = 1}, 4, true, 1000), 1u);
}

TEST(PlanProcesses, FewDescriptorsMeanMoreProcesses) {
	EXPECT_EQ(plan_processes({.transport = Transport::tcp, .clients = 2000}, 0, false, 1064), 2u);
}

TEST(PlanProcesses, AsManyProcessesAsWereAskedForMustHoldAllClients) {
	const auto plan = [](std::uint32_t clients) {
		return plan_processes({.transport = Transport::tcp, .clients = clients}, 2, false, 1000 + descriptors_aside);
	};
	EXPECT_EQ(plan(10), 2u);
	EXPECT_EQ(plan(2000), 2u);
	ASSERT_FALSE(plan(2001));
	EXPECT_NE(
		plan(2001).error().find(fmt::format("a client process needs {}", 1001 + descriptors_aside)), std::string::npos);
}

TEST(PlanProcesses, AShortageOfDescriptorsIsNamed) {
	const auto plan = plan_processes({.transport = Transport::tcp, .clients = 20'000}, 0, true, 20'000);
	ASSERT_FALSE(plan);
	EXPECT_NE(plan.error().find("shortage of descriptors"), std::string::npos);
	EXPECT_TRUE(plan_processes({.transport = Transport::rdma, .clients = 20'000}, 0, true, 20'000));
}

}  // namespace
}  // namespace verbena::scale
