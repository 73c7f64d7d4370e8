// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/redis.h"

#include <gtest/gtest.h>

namespace verbena::scale {
namespace {

TEST(Redis, TheRateIsTheSecondFieldOfTheLastLine) {
	EXPECT_EQ(read_redis_csv("\"test\",\"rps\",\"avg_latency_ms\"\n\"ECHO xx\",\"48387.10\",\"2.0\"\n"), 48387.10);
	EXPECT_FALSE(read_redis_csv("Could not connect to Redis\n"));
	EXPECT_FALSE(read_redis_csv(""));
}

TEST(Redis, TheLatenciesAreFoundByTheirNames) {
	const RedisLatency latency = read_redis_latency(
		"\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\","
		"\"p99_latency_ms\",\"max_latency_ms\"\n"
		"\"ECHO xx\",\"85106.38\",\"0.081\",\"0.008\",\"0.063\",\"0.207\",\"0.351\",\"0.999\"\n");
	EXPECT_EQ(latency.mean_ms, 0.081);
	EXPECT_EQ(latency.p50_ms, 0.063);
	EXPECT_EQ(latency.p99_ms, 0.351);
	EXPECT_EQ(latency.max_ms, 0.999);
	EXPECT_FALSE(read_redis_latency("\"ECHO xx\",\"48387.10\"\n").mean_ms) << "as before version 6.2";
	EXPECT_FALSE(read_redis_latency("").max_ms);
}

TEST(Redis, AShortageOfDescriptorsIsNamed) {
	EXPECT_TRUE(plan_redis(100, 1024));
	EXPECT_TRUE(plan_redis(896, 1024)) << "it has 128 more";
	const auto plan = plan_redis(897, 1024);
	ASSERT_FALSE(plan);
	EXPECT_NE(plan.error().find("shortage of descriptors"), std::string::npos);
	EXPECT_NE(plan.error().find("needs 1025 for 897 connections, and a process may have 1024"), std::string::npos);
}

}  // namespace
}  // namespace verbena::scale
