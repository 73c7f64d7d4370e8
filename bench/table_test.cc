#include "bench/table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::bench {
namespace {

Table one_row() {
	Row row;
	row.mode = "RC";
	row.msg = 32;
	row.window = 4;
	row.iters = 200000;
	row.mops = 0.4412345678901234;
	row.gib = gib_of(*row.mops, row.msg);
	row.op = "send";
	row.window_mode = "local";
	row.device = "vb_lo";
	row.mtu = 4096;
	row.posted = row.delivered = 1000000;
	row.lost = 0;
	row.validity = "valid";
	row.repetitions = "0.44;0.45";
	return {.environment = {{"device", "vb_lo"}, {"command", "verbena bench rcud --sizes 32,64"}}, .rows = {row}};
}

TEST(Csv, BeginsWithTheSevenPublishedColumnsAndEndsWithTheEnvironment) {
	const std::string text = to_csv(one_row());
	EXPECT_TRUE(
		text.starts_with("experiment,mode,msg,window,iters,mops,gib,op,window_mode,device,mtu,posted,completed,"
						 "delivered,lost,duplicated,"
						 "reordered,spread,mops_low,mops_high,p50_us,p99_us,rtt_before_ns,rtt_after_ns,rtt_class,"
						 "validity,reason,repetitions\n"));
	EXPECT_NE(text.find("\nmsg_sweep,RC,32,4,200000,0.4412345678901234,"), std::string::npos);
	EXPECT_TRUE(text.ends_with("# device: vb_lo\n# command: verbena bench rcud --sizes 32,64\n"));
}

TEST(Csv, ReadsBackWhatItWroteToTheLastDigit) {
	Table table = one_row();
	table.rows[0].reason = "a \"quoted\", comma\nand a line";
	const auto read = read_table(to_csv(table));
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(to_csv(*read), to_csv(table));
	EXPECT_EQ(read->rows[0].mops, table.rows[0].mops);
	EXPECT_EQ(read->rows[0].reason, table.rows[0].reason);
	EXPECT_FALSE(read->rows[0].completed);
	EXPECT_EQ(read->environment, table.environment);
}

TEST(Csv, ANotApplicableRowHasEmptyRates) {
	Table table = one_row();
	table.rows[0].mops.reset();
	table.rows[0].gib.reset();
	EXPECT_NE(to_csv(table).find("200000,,,send"), std::string::npos);
	EXPECT_FALSE(read_table(to_csv(table))->rows[0].mops);
}

TEST(Csv, AMalformedFieldIsNamedByLineAndColumn) {
	const std::string header = "experiment,mode,msg,window,iters,mops,gib\n";
	EXPECT_EQ(read_table("").error(), "no header line");
	EXPECT_EQ(read_table(header).error(), "no rows");
	EXPECT_NE(read_table("mode,msg\nRC,32\n").error().find("'experiment'"), std::string::npos);
	EXPECT_NE(read_table(header + "x,RC,32,4,1,0.4\n").error().find("line 2: 6 fields"), std::string::npos);
	EXPECT_NE(
		read_table(header + "x,RC,many,4,1,0.4,0.1\n").error().find("line 2, column msg: 'many'"), std::string::npos);
	EXPECT_NE(read_table(header + "x,RC,32,4,1,nan,0.1\n").error().find("column mops"), std::string::npos);
	EXPECT_NE(read_table(header + "x,RC,32,4,1,-1,0.1\n").error().find("column mops"), std::string::npos);
	EXPECT_NE(read_table(header + "x,\"RC,32,4,1,1,0.1\n").error().find("does not end"), std::string::npos);
	EXPECT_NE(read_table("gib,gib,experiment,mode,msg,window,iters,mops\n").error().find("twice"), std::string::npos);
}

TEST(Json, HasTheEnvironmentAndReadsBack) {
	Table table = one_row();
	table.rows[0].repetition_counts = R"([{"mops":0.44,"delivered":500000}])";
	const auto json = nlohmann::json::parse(to_json(table));
	EXPECT_EQ(json["environment"]["device"], "vb_lo");
	EXPECT_EQ(json["rows"][0]["msg"], 32);
	EXPECT_TRUE(json["rows"][0]["completed"].is_null());
	EXPECT_EQ(json["rows"][0]["repetition_counts"][0]["delivered"], 500000);
	const auto read = read_table(to_json(table));
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(to_csv(*read), to_csv(table));
	EXPECT_EQ(read_table("{\"rows\":[").error(), "not valid JSON");
	EXPECT_FALSE(read_table("{\"rows\":[{\"mode\":\"RC\"}]}"));
}

TEST(Markdown, IsAlignedAndHasThreeSignificantDigits) {
	Table table = one_row();
	table.rows.push_back(table.rows[0]);
	table.rows[1].mode = "UD";
	table.rows[1].msg = 8192;
	table.rows[1].mops.reset();
	table.rows[1].gib.reset();
	const std::string text = to_markdown(table);
	EXPECT_TRUE(text.starts_with("| experiment | mode | msg  | window | iters  | mops  | gib    | op   |")) << text;
	EXPECT_NE(text.find("| msg_sweep  | RC   |   32 |      4 | 200000 | 0.441 | 0.0131 | send |"), std::string::npos)
		<< text;
	EXPECT_NE(text.find("| msg_sweep  | UD   | 8192 |      4 | 200000 |   n/a |    n/a |"), std::string::npos) << text;
}

TEST(ThreeDigits, AreSignificantOnesAndNotDecimals) {
	EXPECT_EQ(three_digits(0.01311), "0.0131");
	EXPECT_EQ(three_digits(12.345), "12.3");
	EXPECT_EQ(three_digits(1234.4), "1234");
	EXPECT_EQ(three_digits(0), "0");
}

}  // namespace
}  // namespace verbena::bench
