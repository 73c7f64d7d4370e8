// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/rows.h"

#include <gtest/gtest.h>

#include "bench/rpc/fixture.h"
#include "bench/table/table.h"

namespace verbena::rpcbench {
namespace {

using bench::Json;
using bench::Table;
using bench::Validity;
using testing_tools::judged;
using testing_tools::over_rdma;
using testing_tools::over_tcp;
using testing_tools::row_with;
using testing_tools::run_of;

TEST(RpcRows, HaveThePublishedColumnsFirst) {
	const Table table{{}, {row_with(over_tcp(), {run_of(over_tcp(), 160'000)})}};
	const std::string text = to_csv(table, experiment().columns);
	EXPECT_TRUE(text.starts_with("request_size,concurrency,gigabits_per_second,p90_us,p99_us,qps,system,")) << text;
	EXPECT_NE(text.find("\n4K,16,5.24288,100.0,100.0,160000.0,verbena,tcp,sink,"), text.npos) << text;
}

TEST(RpcRows, NameSendBuffersOnlyIfTheirNumberIsNotTheDefault) {
	CellOptions cell;
	EXPECT_TRUE(row_of(cell, Json::array())["send_buffers"].is_null());
	cell.send_buffers = 16;
	EXPECT_EQ(row_of(cell, Json::array())["send_buffers"], 16u);
}

TEST(RpcRows, SummarizeAllRepetitions) {
	const CellOptions cell = over_rdma();
	const Json row = row_with(cell, {run_of(cell, 160'000), run_of(cell, 80'000), run_of(cell, 100'000)});
	EXPECT_EQ(judged(row).reason, "");
	EXPECT_EQ(row["qps"], 100'000.0);
	EXPECT_EQ(row["qps_low"], 80'000.0);
	EXPECT_EQ(row["qps_high"], 160'000.0);
	EXPECT_EQ(row["spread"], 0.8);
	EXPECT_EQ(row["gigabits_per_second"], 100'000.0 * 4096 * 8 / 1e9);
	EXPECT_EQ(row["requests"], 340'000u);
	EXPECT_NEAR(row["mean_us"].get<double>(), 48e6 / 340'000, 1e-9);
	EXPECT_NEAR(row["p50_us"].get<double>(), 160, 3) << "of all requests together";
	EXPECT_EQ(row["max_us"], 200.0);
	EXPECT_NEAR(row["p99_us_low"].get<double>(), 100, 2);
	EXPECT_EQ(row["p99_us_high"], 200.0);
	EXPECT_EQ(row["cpu_us_per_request"], 10.0);
	EXPECT_EQ(row["server_cpu_us_per_request"], 3.0);
	EXPECT_EQ(row["requests_per_message"], 2.0);
	EXPECT_EQ(row["registrations"], 21u);
	EXPECT_EQ(row["parts_under_way"], 4u);
	EXPECT_EQ(row["connections_made"], 3u);
	EXPECT_EQ(row["pinned_kib_per_connection"], 256.0);
}

TEST(RpcRows, LeaveOutTheCountsThatASystemOrATransportHasNot) {
	const Json tcp = row_with(over_tcp(), {run_of(over_tcp(), 160'000)});
	for (const char* name : {"inline_share", "registrations", "parts_under_way", "pinned_kib_per_connection"})
		EXPECT_TRUE(tcp[name].is_null()) << name;
	CellOptions other = over_tcp();
	other.system = System::grpc;
	const Json row = row_with(other, {run_of(other, 160'000)});
	EXPECT_EQ(judged(row).reason, "");
	EXPECT_TRUE(row["requests_per_message"].is_null() && row["connections_made"].is_null());
}

TEST(RpcRows, ARunThatFailedIsARepetitionOfAnInvalidRow) {
	const Json row = row_of(over_tcp(), Json::array({json_of(over_tcp(), std::unexpected("no port is left"))}));
	EXPECT_EQ(judged(row).validity, Validity::invalid);
	EXPECT_EQ(judged(row).reason, "repetition 1: no port is left");
}

TEST(RpcRows, ReadAsTheyWereWritten) {
	const CellOptions cell = over_rdma();
	const Table table{{}, {row_with(cell, {run_of(cell, 160'000), run_of(cell, 100'000)})}};
	for (const auto& text : {to_csv(table, experiment().columns), to_json(table, experiment().columns)}) {
		const auto read = bench::read_table(text);
		ASSERT_TRUE(read) << read.error();
		EXPECT_EQ(bench::judge(experiment(), *read)->front().reason, "");
	}
}

}  // namespace
}  // namespace verbena::rpcbench
