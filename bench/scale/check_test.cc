#include "bench/scale/check.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace verbena::scale {
namespace {

constexpr std::string_view header =
	"experiment,transport,clients,success_percent,avg_latency_ms,messages_per_second,rate,messages,think_ms,size,"
	"window,peak_clients,peak_"
	"threads,"
	"server_echoes,client_echoes,validity,reason\n";

CheckedRow only(const std::string& row) { return check_table(std::string(header) + row + "\n").value().front(); }

TEST(CheckScale, APublishedRowIsNotComparableBecauseOfItsWorkAndItsThreads) {
	std::stringstream text;
	text << std::ifstream("bench/published/connection_scale.csv").rdbuf();
	ASSERT_TRUE(is_scale_table(text.str()));
	const auto rows = check_table(text.str()).value();
	ASSERT_EQ(rows.size(), 6u);
	for (const CheckedRow& row : rows) {
		EXPECT_EQ(row.validity, "not comparable") << row.clients;
		EXPECT_NE(row.reason.find("did other work (-n "), std::string::npos) << row.reason;
		EXPECT_NE(row.reason.find("not all were connected at once"), std::string::npos) << row.reason;
	}
	EXPECT_NE(rows.back().reason.find("-n 1 -d 50 -t 200"), std::string::npos);
	EXPECT_NE(rows.back().reason.find("1244 threads"), std::string::npos);
}

TEST(CheckScale, AGoodRowIsValid) {
	EXPECT_EQ(only("scale,rdma,10,100,0.1,50000,0,0,0,64,1,10,3,900,900,valid,").validity, "valid");
}

TEST(CheckScale, RowsOfOtherWorkAreNotComparable) {
	const auto rows = check_table(std::string(header) +
		"scale,rdma,10,100,0.1,50000,0,5,0,64,1,10,3,9,9,valid,\nscale,rdma,20,100,0.1,50000,0,9,0,64,1,20,3,9,9,valid,"
		"\n");
	EXPECT_EQ((*rows)[0].validity, "not comparable");
	EXPECT_EQ((*rows)[1].validity, "not comparable");
}

TEST(CheckScale, CountsThatDifferFromTheServersAreInvalid) {
	EXPECT_EQ(only("scale,rdma,10,100,0.1,50000,0,0,0,64,1,9,3,900,900,valid,").validity, "invalid");
	EXPECT_EQ(only("scale,rdma,10,100,0.1,50000,0,0,0,64,1,10,3,800,900,valid,").validity, "invalid");
}

TEST(CheckScale, MoreUnderWayThanWindowsAllowIsInvalid) {
	EXPECT_EQ(only("scale,rdma,10,100,0.3,50000,0,0,0,64,1,10,3,900,900,valid,").validity, "invalid");
	EXPECT_EQ(only("scale,rdma,10,100,0.3,50000,0,0,0,64,2,10,3,900,900,valid,").validity, "valid");
}

TEST(CheckScale, AVerdictInTheTableIsKept) {
	const CheckedRow row = only("scale,tcp,10,,,,0,0,0,64,1,,,,,n/a,\"short, of descriptors\"");
	EXPECT_EQ(row.validity, "n/a");
	EXPECT_EQ(row.reason, "short, of descriptors");
}

TEST(CheckScale, OtherTablesAreNotOfThisExperiment) {
	EXPECT_FALSE(is_scale_table("experiment,mode,msg,window,iters,mops,gib\nmsg_sweep,RC,32,4,1,1,1\n"));
	EXPECT_FALSE(is_scale_table(""));
	EXPECT_FALSE(check_table(std::string(header) + "scale,rdma\n"));
}

}  // namespace
}  // namespace verbena::scale
