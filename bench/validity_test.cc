#include "bench/validity.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "bench/table.h"

namespace verbena::bench {
namespace {

// A row that is valid in every respect; each test changes only the fields that it is about.
Row good() {
	Row row;
	row.mode = "UD";
	row.msg = 1024;
	row.window = 64;
	row.iters = 1000;
	row.mops = 3.0;
	row.gib = gib_of(3.0, 1024);
	row.device = "mlx5_0";
	row.mtu = 4096;
	row.posted = row.completed = row.delivered = 5000;
	row.lost = row.duplicated = row.reordered = 0;
	row.p50_us = 20;
	return row;
}

Row judged(Row row) {
	judge(std::span(&row, 1));
	return row;
}

TEST(Validity, AGoodRowIsValid) {
	EXPECT_EQ(judged(good()).validity, "valid");
	EXPECT_EQ(judged(good()).reason, "");
}

// In the published table UD 8192 is impossible and UD 4096 at window 64 is above RC's plateau; the
// other rows are valid.
TEST(Validity, ThePublishedTableHasExactlyItsKnownFaults) {
	std::ifstream file("bench/published/rc_vs_ud.csv");
	std::stringstream text;
	text << file.rdbuf();
	auto table = read_table(text.str());
	ASSERT_TRUE(table) << table.error();
	ASSERT_EQ(table->rows.size(), 36u);
	judge(table->rows);
	for (const Row& row : table->rows) {
		const char* expected = "valid";
		if (row.mode == "UD" && row.msg == 8192) expected = "invalid";
		if (row.mode == "UD" && row.msg == 4096 && row.window == 64) expected = "suspect";
		EXPECT_EQ(row.validity, expected)
			<< row.mode << ' ' << row.msg << " window " << row.window << ": " << row.reason;
		EXPECT_EQ(row.reason.empty(), row.validity == "valid");
	}
}

TEST(Validity, ARateThatIsNotTheProductIsInvalidBeyondRounding) {
	Row row = good();
	row.gib = *row.gib * 1.01;
	EXPECT_EQ(judged(row).validity, "invalid");
	row.gib_rounding = 0.05;
	EXPECT_EQ(judged(row).validity, "valid");
}

TEST(Validity, UdAboveTheMtuOfItsRowIsInvalidAndSegmentedIsNot) {
	Row row = good();
	row.mtu = 512;
	EXPECT_EQ(judged(row).validity, "invalid");
	row.mode = "UD-seg";
	EXPECT_EQ(judged(row).validity, "valid");
}

TEST(Validity, NothingDeliveredIsInvalid) {
	Row row = good();
	row.delivered = 0;
	row.lost = 5000;
	row.mops = row.gib = 0;
	EXPECT_EQ(judged(row).validity, "invalid");
	EXPECT_NE(judged(row).reason.find("nothing delivered"), std::string::npos);
}

TEST(Validity, UdMayLoseMessagesAndReportsThemButRcMayNot) {
	Row row = good();
	row.delivered = 4990;
	row.lost = 10;
	EXPECT_EQ(judged(row).validity, "valid");
	EXPECT_EQ(judged(row).reason, "10 of 5000 lost");
	row.mode = "RC";
	EXPECT_EQ(judged(row).validity, "invalid");
}

TEST(Validity, ARateThatLostMoreThanAHundredthIsSuspect) {
	Row row = good();
	row.delivered = 4950;
	row.lost = 50;
	EXPECT_EQ(judged(row).validity, "valid");
	row.delivered = 4949;
	row.lost = 51;
	EXPECT_EQ(judged(row).validity, "suspect");
	EXPECT_NE(judged(row).reason.find("51 of 5000 lost (1.02 %)"), std::string::npos);
}

TEST(Validity, AnAccountThatDoesNotAddUpIsInvalid) {
	Row row = good();
	row.lost = 1;
	EXPECT_EQ(judged(row).validity, "invalid");
	row = good();
	row.delivered = 6000;
	EXPECT_EQ(judged(row).validity, "invalid");
	row = good();
	row.completed = 5001;
	EXPECT_EQ(judged(row).validity, "invalid");
	row = good();
	row.mops_low = 3.1;
	row.mops_high = 3.2;
	EXPECT_EQ(judged(row).validity, "invalid");
}

TEST(Validity, MoreInFlightThanTheWindowIsSuspect) {
	Row row = good();
	row.p50_us = 50;
	EXPECT_EQ(judged(row).validity, "suspect");
}

TEST(Validity, WithoutAnRcPlateauUdMayBeFaster) {
	Row small = good(), large = good(), fast = good();
	small.mode = large.mode = "RC";
	small.msg = 4096;
	large.msg = 8192;
	small.p50_us.reset(), large.p50_us.reset(), fast.p50_us.reset();
	const auto with_rate = [](Row& row, double gib) {
		row.gib = gib, row.mops = gib * (1 << 30) / 1e6 / static_cast<double>(row.msg);
	};
	with_rate(small, 10.0);
	with_rate(large, 10.5);
	with_rate(fast, 12.0);
	std::vector rows{small, large, fast};
	judge(rows);
	EXPECT_EQ(rows[2].validity, "suspect");

	with_rate(small, 5.0);  // the rate still doubles, so the window limits it and not a link
	rows = {small, large, fast};
	judge(rows);
	EXPECT_EQ(rows[2].validity, "valid");
}

TEST(Validity, TheSoftwareDeviceHasNoLinkToSaturateOnceTheReceiverCounted) {
	Row small = good(), large = good(), fast = good();
	small.mode = large.mode = "RC";
	for (Row* row : {&small, &large, &fast}) {
		row->device = "vb_lo";
		row->p50_us.reset();
		row->gib = row == &fast ? 12.0 : 10.0;
	}
	small.msg = 2048;
	large.msg = 4096;
	for (Row* row : {&small, &large, &fast}) row->mops = *row->gib * (1 << 30) / 1e6 / static_cast<double>(row->msg);
	std::vector rows{small, large, fast};
	judge(rows);
	EXPECT_EQ(rows[2].validity, "valid");
	rows[2].delivered.reset();
	judge(rows);
	EXPECT_EQ(rows[2].validity, "suspect");
}

TEST(Validity, ANotApplicableRowStaysSoAndAWorseVerdictIsKept) {
	Row row = good();
	row.mops.reset(), row.gib.reset();
	row.validity = "n/a";
	row.reason = "msg 8192 > UD max 4096";
	EXPECT_EQ(judged(row).validity, "n/a");
	EXPECT_EQ(judged(row).reason, "msg 8192 > UD max 4096");

	row = good();
	row.validity = "invalid";
	row.reason = "the receiver ended";
	EXPECT_EQ(judged(row).validity, "invalid");
	EXPECT_EQ(judged(row).reason, "the receiver ended");
}

TEST(Validity, ANotApplicableLabelDoesNotHideANumber) {
	Row row = good();
	row.validity = "n/a";
	row.mtu = 512;
	EXPECT_EQ(judged(row).validity, "invalid");
}

}  // namespace
}  // namespace verbena::bench
